// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/internal/pull"
	"github.com/regcred/regcred/internal/terminal"
)

// pullFlags are the flags of "regcred pull".
type pullFlags struct {
	layoutPull
	format  *choice
	runtime runtimeFlags // for a pull that is not into a layout
}

func (a *app) pullCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pull IMAGE...",
		Short: "Pull images with the credentials that a node would use: into an OCI image layout, or a container runtime",
		Long: `pull looks up the credentials for each IMAGE and pulls it as a kubelet would:
without credentials once anonymously, otherwise once with each of them in order
until one works, and not anonymously after that. If a provider failed and there
is no credential, nothing is pulled.

--output pulls into an OCI image layout, which is created if it does not exist;
one that exists gets the images added. Its index.json changes only when an image
is there whole; layers that are there already are verified before they are used.

--runtime-endpoint pulls into containerd or CRI-O, over CRI. Only credentials of
the node are used then: what is pulled behind the kubelet's back is open to
every pod of the node (KEP-2535). --allow-all-pods lifts that. "regcred prepull"
pulls many images, several at a time.

The exit code is 0 if every image was pulled, and 1 otherwise.`,
		Example: `  regcred pull --output ./images registry.example/team/app:1.2
  regcred pull --output ./images --platform all registry.example/team/app:1.2 nginx:1.27
  sudo regcred pull --as-kubelet --output /tmp/app -o json registry.example/team/app:1.2
  sudo regcred pull --as-kubelet --runtime-endpoint auto registry.example/team/app:1.2`,
	}
	p := &pullFlags{format: &choice{value: "text", values: []string{"text", "json"}}}
	f := cmd.Flags()
	f.StringVar(&p.dir, "output", "", "`directory` of the OCI image layout")
	p.format.register(cmd, "format", "o", "output format: text | json")
	f.StringVar(&p.platform, "platform", "", "`os/arch[/variant]` to take from a multi-platform image, or \"all\" (default linux and this machine's architecture)")
	f.BoolVar(&p.insecure, "insecure-plain-http", false, "speak to the registry without TLS if it has none: passwords can then be read on the way")
	p.runtime.register(cmd, pull.PullAlways, pull.PullIfNotPresent, pull.PullNever)
	p.lookupFlags = addLookupFlags(cmd)
	p.runtime.lookupFlags, p.runtime.format, p.runtime.parallel = p.lookupFlags, p.format, 1
	cmd.Args = p.checkArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if p.runtime.endpoint != "" {
			return a.pullIntoRuntime(cmd.Context(), &p.runtime, args)
		}
		return a.pullAll(cmd.Context(), p, args)
	}
	return cmd
}

// checkArgs demands images and one place to pull them to, with the flags of
// that place alone.
func (p *pullFlags) checkArgs(cmd *cobra.Command, args []string) error {
	place, others := "--output", []string{"pull-policy", "timeout", "allow-all-pods"}
	if p.runtime.endpoint != "" {
		place, others = "--runtime-endpoint", []string{"output", "platform", "insecure-plain-http"}
	}
	switch {
	case len(args) == 0:
		return fmt.Errorf("%s: IMAGE is missing", cmd.CommandPath())
	case p.dir == "" && p.runtime.endpoint == "":
		return fmt.Errorf("%s: where to? name a directory for the images (--output), or a container runtime (--runtime-endpoint)", cmd.CommandPath())
	}
	for _, name := range others {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("%s: --%s does not go with %s", cmd.CommandPath(), name, place)
		}
	}
	if err := pull.CheckPlatform(p.platform); err != nil {
		return fmt.Errorf("--platform: %w", err)
	}
	return nil
}

func (a *app) pullAll(ctx context.Context, p *pullFlags, images []string) error {
	s, err := a.openKeyring(ctx, p.lookupFlags)
	if err != nil {
		return err
	}
	defer s.Close()
	reports := make([]pullReport, 0, len(images))
	var errs []error
	for _, image := range images {
		r, err := a.pullOne(ctx, s, &p.layoutPull, image)
		if err != nil {
			r.Error = err.Error()
			errs = append(errs, err)
		}
		reports = append(reports, *r)
		if p.format.value == "text" {
			if err := a.print(p.format, r, r.render); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	if p.format.value == "json" {
		errs = append(errs, a.WriteJSON(reports))
	}
	return errors.Join(errs...)
}

// render says what came of one image.
func (r *pullReport) render(t *terminal.Text) {
	if r.Error != "" {
		t.Line(terminal.Fail, r.Image)
		return
	}
	t.Line(terminal.OK, r.Image)
	t.Pair("  digest", r.Digest)
	if r.Resolved != "" {
		t.Pair("  of index", r.Resolved)
	}
	t.Pair("  content", r.content())
	t.Pair("  login", loginText(r.Credential))
	for _, f := range r.Failed {
		t.Pair("  refused", loginText(f.Credential)+": "+f.Error)
	}
	t.Pair("  output", r.Output)
}
