// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command dockerconfig-credential-provider is a kubelet credential provider that
// returns credentials from a docker config.json or a podman auth.json and the
// credential helpers it names. docs/plugins/dockerconfig.md describes it.
package main

import (
	"os"

	"github.com/regcred/regcred/internal/pluginmain"
	"github.com/regcred/regcred/internal/provider/dockerconfig"
	"github.com/regcred/regcred/plugin"
)

// version is set by the linker in release builds: -ldflags "-X main.version=v1.2.3".
var version string

func main() {
	opts := dockerconfig.Options{Environ: os.Environ()}
	flags := pluginmain.NewFlagSet()
	flags.StringVar(&opts.Path, "config", "", "`path` to config.json or auth.json; required")
	flags.BoolVar(&opts.Optional, "optional", false, "if the file is missing, return no credential instead of an error")
	flags.StringVar(&opts.HelperDir, "helper-dir", "", "`directory` with the docker-credential-* programs (default: search PATH)")
	flags.DurationVar(&opts.CacheDuration, "cache-duration", dockerconfig.DefaultCacheDuration, "cache duration of the response; 0s disables caching")
	pluginmain.Program{
		Name:    "dockerconfig-credential-provider",
		Version: version,
		Flags:   flags,
		Summary: "A kubelet credential provider that returns credentials from a docker config.json\n" +
			"or podman auth.json, and from the docker-credential-* helpers that the file\n" +
			"configures. It reads one CredentialProviderRequest from standard input.",
		Example: "  dockerconfig-credential-provider --config /etc/registry/config.json \\\n" +
			"    --helper-dir /usr/local/bin < request.json",
		New: func(in pluginmain.Input) (plugin.Provider, error) {
			opts.Logger = in.Logger
			return dockerconfig.New(opts)
		},
	}.Main()
}
