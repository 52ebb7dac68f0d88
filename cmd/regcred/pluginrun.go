// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/plugin"
)

// pluginRunFlags holds the flags of "regcred plugin run".
type pluginRunFlags struct {
	output *choice
	identityFlags
}

func (a *app) pluginRunCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run NAME IMAGE",
		Short: "Run one provider's plugin as the kubelet does, and show the request and response",
		Long: `Run the plugin of provider NAME once for IMAGE, as the kubelet does: with the
configured arguments, environment, protocol version and deadline, but without a
cache. Show the request and the response, with tokens and passwords redacted,
and whether the kubelet would accept the response. A provider from a
RegistryCredentialConfig is run with that file's protocol. No kubelet supports
the RegistryCredentialConfig protocol, so the result shows how regcred treats
the response.

The exit code is 0 if the response has credentials for the image, 3 if it has
none, and 1 if the run failed or the kubelet would reject the response.`,
		Example: `  regcred plugin run ecr-credential-provider 123456789012.dkr.ecr.eu-west-1.amazonaws.com/app
  sudo regcred plugin run --as-kubelet ecr-credential-provider IMAGE
  regcred plugin run --service-account-token-file token --annotation example.com/role=ci NAME IMAGE`,
		Args: exactly("NAME", "IMAGE"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.providerNames(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
		},
	}
	f := &pluginRunFlags{output: addOutputFlag(cmd, "text", "json")}
	f.identityFlags.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.pluginRun(cmd.Context(), f, args[0], args[1])
	}
	return cmd
}

// providerNames completes provider names. Errors cannot be printed during completion.
func (a *app) providerNames(ctx context.Context) []string {
	a.Stderr = io.Discard
	cfg, _, err := a.load(ctx, "", false)
	if err != nil {
		return nil
	}
	return doctor.Names(cfg)
}

func (a *app) pluginRun(ctx context.Context, f *pluginRunFlags, name, image string) error {
	if err := f.identityFlags.check(); err != nil {
		return err
	}
	token, annotations, err := f.read(ctx)
	if err != nil {
		return err
	}
	cfg, o, i, err := a.loadProvider(ctx, name)
	if err != nil {
		return err
	}
	req, err := a.pluginRequest(cfg, i, image, token, annotations)
	if err != nil {
		return err
	}
	p := &cfg.Providers[i]
	x, err := a.command(cfg, i, o).Run(ctx, req)
	r := newPluginRunReport(p, o, req, x, err)
	if err := a.print(f.output, r, r.render); err != nil {
		return err
	}
	return r.failure()
}

// pluginRequest returns the request that the kubelet would send, or an error if it
// would not call the plugin.
func (a *app) pluginRequest(cfg *config.Config, i int, image string, token plugin.Secret, annotations map[string]string) (*plugin.Request, error) {
	ex, err := a.explainTarget(cfg, target{image: image})
	if err != nil {
		return nil, err
	}
	p := &cfg.Providers[i]
	if e := ex.Providers[i]; !e.Matched {
		a.Note("%s would not run %s for %s: %q: %s", hostOf(p), p.Name, ex.Repository, e.Pattern, e.Reason)
	}
	req := &plugin.Request{Image: ex.Repository}
	t := p.TokenAttributes
	if t == nil {
		if !token.IsZero() {
			return nil, usageError("omit --service-account-token-file", "provider %q has no tokenAttributes, so %s does not pass it a token", p.Name, hostOf(p))
		}
		return req, nil
	}
	if token.IsZero() && *t.RequireServiceAccount {
		a.Note("the kubelet would not run %s for a pod without a service account (requireServiceAccount); use --service-account-token-file", p.Name)
	}
	req.ServiceAccountToken = token
	req.ServiceAccountAnnotations = a.selectAnnotations(t, token, annotations)
	return req, nil
}
