// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command static-credential-provider is a kubelet credential provider that returns a
// user name and password from files. docs/plugins/static.md describes it.
package main

import (
	"github.com/regcred/regcred/internal/pluginmain"
	"github.com/regcred/regcred/internal/provider/static"
	"github.com/regcred/regcred/plugin"
)

// version is set by the linker in release builds: -ldflags "-X main.version=v1.2.3".
var version string

func main() {
	var opts static.Options
	flags := pluginmain.NewFlagSet()
	flags.StringArrayVar(&opts.Hosts, "host", nil, "`host[:port]` of a registry that may receive the password; * matches any part of one DNS label; required, may be repeated")
	flags.StringVar(&opts.Username, "username", "", "user `name`")
	flags.StringVar(&opts.UsernameFile, "username-file", "", "`path` to a file that contains the user name; use instead of --username")
	flags.StringVar(&opts.PasswordFile, "password-file", "", "`path` to a file that contains the password")
	flags.StringVar(&opts.PasswordCredential, "password-credential", "", "`name` of a systemd credential in the kubelet's unit that holds the password; use instead of --password-file")
	flags.DurationVar(&opts.CacheDuration, "cache-duration", static.DefaultCacheDuration, "cache duration of the response; 0s disables caching")
	pluginmain.AddOtherHostsFlag(flags, &opts.OtherHosts)
	pluginmain.Program{
		Name:    "static-credential-provider",
		Version: version,
		Flags:   flags,
		Summary: "A kubelet credential provider that returns a user name and password from files,\n" +
			"which it reads on each run. It reads one CredentialProviderRequest from\n" +
			"standard input.",
		Example: "  static-credential-provider --host registry.example --username node \\\n" +
			"    --password-file /etc/registry/password < request.json",
		New: func(in pluginmain.Input) (plugin.Provider, error) {
			opts.CredentialsDir = in.Getenv("CREDENTIALS_DIRECTORY")
			return static.New(opts)
		},
	}.Main()
}
