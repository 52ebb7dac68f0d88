// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/internal/pull"
	"github.com/regcred/regcred/internal/report"
)

// pullFlags holds the flags of "regcred pull".
type pullFlags struct {
	*commonPullFlags
	layout   string // output directory
	platform string
	insecure bool
}

func (a *app) pullCmd() *cobra.Command {
	p := &pullFlags{}
	cmd := &cobra.Command{
		Use:   "pull IMAGE...",
		Short: "Pull images into an OCI image layout with the credentials that a node would use",
		Long: `Look up the credentials for each IMAGE and pull it as the kubelet would: once
with each credential in order until one works, or once anonymously if there are
none. If a provider fails and no credential is found, nothing is pulled.

The --layout directory is created if it does not exist; otherwise the images are
added to it. The directory's index.json is updated only when an image is
complete. Existing layers are verified before they are reused.

"regcred prepull" pulls into the node's container runtime.

The exit code is 0 if every image was pulled, and 1 otherwise.`,
		Example: `  regcred pull --layout ./images registry.example/team/app:1.2
  regcred pull --layout ./images --platform all registry.example/team/app:1.2 nginx:1.27
  sudo regcred pull --as-kubelet --layout /tmp/app -o json registry.example/team/app:1.2`,
		Args: func(cmd *cobra.Command, args []string) error { return p.checkArgs(cmd, args) },
	}
	f := cmd.Flags()
	f.StringVar(&p.layout, "layout", "", "`directory` of the OCI image layout (required)")
	f.StringVar(&p.platform, "platform", "", "`os/arch[/variant]` to pull from a multi-platform image, or \"all\" (default linux and this machine's architecture)")
	f.BoolVar(&p.insecure, "insecure-plain-http", false, "use plain HTTP if the registry has no TLS; passwords are sent unencrypted")
	p.commonPullFlags = addCommonPullFlags(cmd)
	f.Lookup("ca-file").Usage = "PEM `file` of CA certificates to trust in addition to those of the system (for registries) and of the kubeconfig (for the API server)"
	assignFlagGroup(cmd, "", "ca-file")
	p.contactsRegistries = true
	_ = cmd.MarkFlagDirname("layout")
	registerFlagCompletion(cmd, "platform", []string{"all", "linux/amd64", "linux/arm64"})
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.pull(cmd.Context(), p, args) }
	return cmd
}

func (p *pullFlags) checkArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return fmt.Errorf("%s: IMAGE is missing", cmd.CommandPath())
	case p.layout == "":
		return fmt.Errorf("%s: --layout is missing", cmd.CommandPath())
	}
	if err := pull.CheckPlatform(p.platform); err != nil {
		return fmt.Errorf("--platform: %w", err)
	}
	return p.check()
}

func (a *app) pull(ctx context.Context, p *pullFlags, images []string) error {
	transport, err := p.caFile.registryTransport(ctx)
	if err != nil {
		return err
	}
	s, err := a.openKeyring(ctx, p.lookupFlags)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := a.checkImages(s, images); err != nil {
		return err
	}
	all := newPullRun(a, p.commonPullFlags, s)
	puller := &pull.Puller{Platform: p.platform, Insecure: p.insecure, OnRejected: s.Invalidate, Transport: transport}
	all.pullInto = a.newLayoutPuller(puller, p.layout)
	return all.pullAll(ctx, &pullReport{Layout: p.layout}, images)
}

// newLayoutPuller returns a function that pulls an image into an OCI image layout.
func (a *app) newLayoutPuller(puller *pull.Puller, dir string) func(context.Context, lookupFunc, *imageReport) error {
	return func(ctx context.Context, creds lookupFunc, r *imageReport) error {
		list, err := creds(ctx)
		if err != nil {
			return err
		}
		bars := a.NewLayerProgress()
		defer bars.Close()
		puller.Progress = func(e pull.Event) {
			switch e.Kind {
			case pull.EventQueued: // sent again for each credential that is tried
				what := "layer"
				if e.Config {
					what = "config"
				}
				bars.Queue(what, e.Digest, e.Size)
			case pull.EventAdvance, pull.EventRestart:
				bars.SetBytes(e.Digest, e.Bytes)
			case pull.EventDone:
				bars.Done(e.Digest, e.Size)
			}
		}
		got, err := puller.Pull(ctx, r.Image, list, dir)
		if err != nil {
			return err
		}
		r.Outcome, r.Digest, r.MediaType, r.Platform, r.Downloaded = outcomePulled, got.Digest, got.MediaType, got.Platform, got.Bytes
		if got.Resolved != got.Digest {
			r.Resolved = got.Resolved
		}
		for _, l := range got.Layers {
			r.Layers = append(r.Layers, layerReport{l.Digest, l.Size, l.Reused})
		}
		r.Credential, r.Failed = report.NewCredential(got.Credential), newTryReports(got.Failed)
		return nil
	}
}
