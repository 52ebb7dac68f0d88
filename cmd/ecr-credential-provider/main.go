// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command ecr-credential-provider is a kubelet credential provider for Amazon
// Elastic Container Registry. See docs/plugins/ecr.md.
package main

import (
	"github.com/regcred/regcred/internal/pluginmain"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/provider/ecr"
)

// version is set by the linker in release builds: -ldflags "-X main.version=v1.2.3".
var version string

func main() { newProgram().Main() }

func newProgram() pluginmain.Program {
	var opts ecr.Options
	flags := pluginmain.NewFlagSet()
	flags.StringArrayVar(&opts.AllowHosts, "allow-host", nil,
		"also return credentials for this `HOST[=REGION]`, which is outside the ECR domains; * matches any part of one DNS label; repeatable")
	flags.BoolVar(&opts.AnyHost, "any-host", false,
		"return credentials for every host, as the upstream plugin does; this sends the ECR password to every registry that matchImages matches")
	pluginmain.AddOtherHostsFlag(flags, &opts.OtherHosts)
	pluginmain.AddMirrorFlags(flags, &opts.Mirrors, &opts.MirrorOrigin)
	flags.StringArrayVar(&opts.Roles, "role", nil,
		"`ACCOUNT=ARN[,ARN...]`: assume these roles, in order, for the account's registries; repeatable")
	flags.StringArrayVar(&opts.ExternalIDs, "external-id", nil,
		"`ACCOUNT=ID`: external ID for the account's roles; repeatable")
	flags.StringVar(&opts.SessionName, "session-name", "",
		"session `NAME` for all STS calls (default: the service account's name; the upstream plugin uses ecr-credential-provider)")
	flags.BoolVar(&opts.PlainEndpoints, "plain-endpoints", false,
		"use the plain ECR and STS endpoints even for FIPS and dual-stack hosts, as the upstream plugin does")
	return pluginmain.Program{
		Name:             "ecr-credential-provider",
		Version:          version,
		VersionShorthand: "v",
		Args:             "[get-credentials]",
		Summary:          "A kubelet credential provider for Amazon Elastic Container Registry, private\nand public. It reads a CredentialProviderRequest from standard input.",
		Example:          "  ecr-credential-provider --allow-host registry.corp.example:5000=eu-west-1",
		Flags:            flags,
		New: func(in pluginmain.Input) (plugin.Provider, error) {
			opts.DefaultRoleARN = in.Getenv("AWS_ECR_ROLE_ARN")
			opts.Logger = in.Logger
			return ecr.New(opts)
		},
	}
}
