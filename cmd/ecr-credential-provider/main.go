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

// version is set by release builds: -ldflags "-X main.version=v1.2.3". The
// linker can only reach a package variable; nothing else writes it.
var version string

func main() { program().Main() }

func program() pluginmain.Program {
	var opts ecr.Options
	flags := pluginmain.Flags()
	flags.StringArrayVar(&opts.AllowHosts, "allow-host", nil,
		"serve `HOST[=REGION]` too, whose name is none of ECR's; globs stand for one label; repeatable")
	flags.BoolVar(&opts.AnyHost, "any-host", false,
		"serve every host, as upstream's plugin does, with the region of the configuration or the instance: any registry that matchImages reaches is sent the password of AWS")
	pluginmain.OtherHosts(flags, &opts.OtherHosts)
	pluginmain.Mirrors(flags, &opts.Mirrors, &opts.MirrorOrigin)
	flags.StringArrayVar(&opts.Roles, "role", nil,
		"`ACCOUNT=ARN[,ARN...]`: for registries of that account take this role, and each that follows with the one before it; repeatable")
	flags.StringArrayVar(&opts.ExternalIDs, "external-id", nil,
		"`ACCOUNT=ID`: what the roles of that account are taken with; repeatable")
	flags.StringVar(&opts.SessionName, "session-name", "",
		"`NAME` of all sessions at STS, in place of the service account's; upstream's is ecr-credential-provider")
	flags.BoolVar(&opts.PlainEndpoints, "plain-endpoints", false,
		"ask ECR and STS where upstream's plugin does, whatever the form of the host: not at endpoints for FIPS or IPv6")
	return pluginmain.Program{
		Name:             "ecr-credential-provider",
		Version:          version,
		VersionShorthand: "v",
		Args:             "[get-credentials]",
		Summary:          "A kubelet credential provider for Amazon Elastic Container Registry, private and public.\nIt reads a CredentialProviderRequest from standard input.",
		Example:          "  ecr-credential-provider --allow-host registry.corp.example:5000=eu-west-1",
		Flags:            flags,
		New: func(in pluginmain.Input) (plugin.Provider, error) {
			opts.DefaultRoleARN = in.Getenv("AWS_ECR_ROLE_ARN")
			opts.Logger = in.Log
			return ecr.New(opts)
		},
	}
}
