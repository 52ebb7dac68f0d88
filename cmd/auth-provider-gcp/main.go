// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command auth-provider-gcp is a kubelet credential provider for Google
// Artifact Registry and Container Registry. See docs/plugins/gcr.md.
package main

import (
	"errors"
	"fmt"

	"github.com/regcred/regcred/internal/pluginmain"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/provider/gcr"
)

// version is set by the linker in release builds: -ldflags "-X main.version=v1.2.3".
var version string

func main() { newProgram().Main() }

// newProgram returns the plugin with its flags.
func newProgram() pluginmain.Program {
	var opts gcr.Options
	flags := pluginmain.NewFlagSet()
	flags.StringVarP(&opts.Flow, "authFlow", "a", gcr.FlowRegistry,
		"`flow`: gcr for an access token, dockercfg or dockercfg-url for a docker config from instance metadata attributes")
	flags.StringVar(&opts.IdentityProvider, "identity-provider", "",
		"`URL` of the cluster's identity provider; pods with the annotation "+gcr.AnnotationEnable+" pull as their service account")
	flags.StringVar(&opts.ProjectID, "project-id", "", "`project` of the workload identity pool; required with --identity-provider")
	flags.StringVar(&opts.STSAudience, "sts-audience", "",
		"`audience` of a workload identity provider; if set, all pods pull as their service account and do not need the annotation")
	flags.BoolVar(&opts.RequireWorkloadIdentity, "require-workload-identity", false, "reject requests for pods that would pull with the node's identity")
	flags.BoolVar(&opts.Impersonate, "impersonate", false,
		"impersonate the Google service account named in the annotation "+gcr.AnnotationAccount)
	flags.StringVar(&opts.UniverseDomain, "universe-domain", "googleapis.com", "`domain` of Google's services")
	flags.StringSliceVar(&opts.AllowHosts, "allow-host", nil,
		"additional `host[:port]` that receives the access token; * matches any part of one DNS label; repeatable")
	flags.BoolVar(&opts.AnyHost, "any-host", false,
		"send the access token to every host that matchImages matches, as the upstream plugin does")
	pluginmain.AddOtherHostsFlag(flags, &opts.OtherHosts)
	pluginmain.AddMirrorFlags(flags, &opts.Mirrors, &opts.MirrorOrigin)
	pluginmain.AddIgnoredKlogFlags(flags)
	return pluginmain.Program{
		Name:    "auth-provider-gcp",
		Version: version,
		Args:    "[get-credentials]",
		Summary: "A kubelet credential provider for Google Artifact Registry and Container\n" +
			"Registry. It reads a CredentialProviderRequest from standard input.",
		Example: "  auth-provider-gcp get-credentials --v=3 < request.json",
		Flags:   flags,
		New: func(in pluginmain.Input) (plugin.Provider, error) {
			if err := checkArgs(in.Args, opts); err != nil {
				return nil, err
			}
			opts.Getenv, opts.Logger = in.Getenv, in.Logger
			if err := opts.ReadEnviron(); err != nil {
				return nil, err
			}
			return gcr.New(opts)
		},
	}
}

// checkArgs returns an error if the first argument is not get-credentials or if --authFlow is
// empty. Existing configurations pass get-credentials, but it is optional.
func checkArgs(args []string, opts gcr.Options) error {
	if len(args) > 0 && args[0] != "get-credentials" {
		return fmt.Errorf("unknown command %q; the only command is get-credentials", args[0])
	}
	if opts.Flow == "" {
		return errors.New("--authFlow must not be empty")
	}
	return nil
}
