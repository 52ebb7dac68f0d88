// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Acr-credential-provider is a kubelet credential provider for Azure Container
// Registry. docs/plugins/acr.md describes it.
package main

import (
	"errors"

	"github.com/regcred/regcred/internal/pluginmain"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/provider/acr"
)

// version is set by the linker in release builds: -ldflags "-X main.version=v1.2.3".
var version string

func main() { newProgram().Main() }

func newProgram() pluginmain.Program {
	opts, flags := acr.Options{}, pluginmain.NewFlagSet()
	pluginmain.AddMirrorFlags(flags, &opts.Mirrors, &opts.MirrorOrigin)
	flags.StringArrayVarP(&opts.RegistryMirrors, "registry-mirror", "r", nil,
		"`SOURCE:TARGET` as in the upstream plugin, or SOURCE=TARGET if a host has a port; separate several pairs with commas")
	flags.StringArrayVar(&opts.AllowHosts, "allow-host", nil,
		"also return credentials for this `host[:port]`, which is outside the ACR domains; * matches any part of one DNS label; repeatable")
	pluginmain.AddOtherHostsFlag(flags, &opts.OtherHosts)
	flags.StringVar(&opts.Binding.SNIName, "ib-sni-name", "", "TLS server `name` for identity bindings")
	flags.StringVar(&opts.Binding.APIServer, "ib-apiserver-ip", "", "`address` or name of the API server for identity bindings")
	flags.StringVar(&opts.Binding.DefaultClientID, "ib-default-client-id", "", "client `ID` for identity bindings if the service account has no client ID annotation")
	flags.StringVar(&opts.Binding.DefaultTenantID, "ib-default-tenant-id", "", "tenant `ID` for identity bindings if the service account has no tenant ID annotation")
	flags.StringVar(&opts.Binding.CAFile, "ib-ca-file", acr.DefaultBindingCA, "`path` to the CA certificate for identity bindings")
	flags.StringVar(&opts.DefaultClientID, "default-client-id", "", "client `ID` for service accounts without a client ID annotation")
	flags.StringVar(&opts.DefaultTenantID, "default-tenant-id", "", "tenant `ID` for service accounts without a tenant ID annotation")
	flags.BoolVar(&opts.FallbackToNode, "fallback-to-node-identity", false, "use the node's identity for pods whose service account has no identity")
	flags.BoolVar(&opts.StaticSecret, "static-client-secret", false, "return aadClientId and aadClientSecret as the credential")
	pluginmain.AddIgnoredKlogFlags(flags)
	return pluginmain.Program{
		Name: "acr-credential-provider", Version: version, Args: "CLOUD-CONFIG",
		Summary: "A kubelet credential provider for Azure Container Registry. CLOUD-CONFIG is\nthe path to azure.json, which can contain JSON or YAML.",
		Example: "  acr-credential-provider /etc/kubernetes/azure.json",
		Flags:   flags,
		New: func(in pluginmain.Input) (plugin.Provider, error) {
			args := in.Args
			if len(args) > 0 && args[0] == "get-credentials" {
				args = args[1:] // configurations for the out-of-tree proposal pass this command
			}
			if len(args) != 1 {
				return nil, errors.New("expected one argument: the path to the cloud configuration (azure.json)")
			}
			opts.ConfigFile, opts.Getenv, opts.Logger = args[0], in.Getenv, in.Logger
			return acr.New(opts)
		},
	}
}
