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
