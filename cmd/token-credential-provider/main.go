// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command token-credential-provider is a kubelet credential provider plugin that
// returns the pod's service account token, or the credential that an endpoint issues
// for that token. See docs/plugins/token.md.
package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/regcred/regcred/internal/pluginmain"
	"github.com/regcred/regcred/internal/provider/token"
	"github.com/regcred/regcred/plugin"
)

// version is set by the linker in release builds: -ldflags "-X main.version=v1.2.3".
var version string

func main() { newProgram().Main() }

func newProgram() pluginmain.Program {
	f := flags{set: pluginmain.NewFlagSet()}
	f.register()
	return pluginmain.Program{
		Name: "token-credential-provider", Version: version, Flags: f.set,
		Summary: "A kubelet credential provider that returns the pod's service-account token, or a\n" +
			"credential that an endpoint returns for the token.",
		Example: usageExample,
		New:     func(in pluginmain.Input) (plugin.Provider, error) { return f.newProvider(in) },
	}
}

const usageExample = `  Use the token as the password:
    token-credential-provider --registry=registry.example.com \
      --audience=registry.example.com

  Exchange the token for a password (RFC 8693):
    token-credential-provider --registry=registry.example.com --username=robot \
      --exchange-url=https://sts.example.com/token --exchange-audience=registry

  Exchange the token as configured in a file (docs/plugins/token.md):
    token-credential-provider --config=/etc/token-credential-provider/quay.yaml`

// flags holds the command-line flags as given.
type flags struct {
	set            *pflag.FlagSet
	config         string
	opts           token.Options
	cacheDuration  time.Duration
	exchange       token.Exchange
	exchangeFields token.TokenExchange
	clientID       string
	secretFile     string
}

func (f *flags) register() {
	f.set.StringVar(&f.config, "config", "", "`file` that configures the token exchange; only --other-hosts can be combined with it")
	f.set.StringSliceVar(&f.opts.Registries, "registry", nil, "`pattern` for registries that may receive credentials, as in matchImages; may be repeated")
	f.set.StringVar(&f.opts.Username, "username", "", "user `name`, with placeholders such as {namespace} (default \""+token.DefaultUsername+"\" if the token is the password)")
	f.set.StringVar(&f.opts.Audience, "audience", "", "`audience` that the token must have; required if the token is the password")
	f.set.StringVar(&f.opts.TokenFile, "token-file", "", "absolute `path` to a token file for requests without a token, such as requests for static pods")
	f.set.BoolVar(&f.opts.Optional, "optional", false, "for pods without a token, return no credential instead of an error")
	f.set.DurationVar(&f.cacheDuration, "cache-duration", 0, "maximum cache duration; used as the cache duration if the expiry is unknown")
	f.set.StringVar(&f.exchange.URL, "exchange-url", "", "`URL` of a token endpoint (RFC 8693) that exchanges the token for a password")
	f.set.StringVar(&f.exchangeFields.Audience, "exchange-audience", "", "`audience` to request from the endpoint")
	f.set.StringVar(&f.exchangeFields.Scope, "exchange-scope", "", "`scope` to request from the endpoint")
	f.set.StringVar(&f.exchangeFields.Resource, "exchange-resource", "", "`resource` to request from the endpoint")
	f.set.StringVar(&f.clientID, "exchange-client-id", "", "client `id` for HTTP Basic authentication at the endpoint")
	f.set.StringVar(&f.secretFile, "exchange-client-secret-file", "", "absolute `path` to the client secret file")
	f.set.StringVar(&f.exchange.CAFile, "exchange-ca-file", "", "`path` to a PEM file with CA certificates to trust in addition to those of the system")
	pluginmain.AddOtherHostsFlag(f.set, &f.opts.OtherHosts)
	f.set.BoolVar(&f.exchange.InsecureHTTP, "exchange-insecure-http", false, "allow a plain HTTP endpoint, which exposes the token on the network")
}

func (f *flags) newProvider(in pluginmain.Input) (plugin.Provider, error) {
	opts, err := f.options()
	if err != nil {
		return nil, err
	}
	opts.Logger = in.Logger
	return token.New(opts)
}

func (f *flags) options() (token.Options, error) {
	if f.set.Changed("config") {
		if other := f.conflictingFlag("config"); other != "" {
			return token.Options{}, fmt.Errorf("--config and --%s are mutually exclusive", other)
		}
		opts, err := token.Load(f.config)
		opts.OtherHosts = f.opts.OtherHosts
		return opts, err
	}
	opts := f.opts
	opts.FromFlags = true
	if f.set.Changed("cache-duration") {
		opts.CacheDuration = &f.cacheDuration
	}
	switch {
	case f.exchange.URL != "":
		x := f.exchange
		x.TokenExchange = &f.exchangeFields
		opts.Exchange = &x
		return opts, f.setClientCredential(&x)
	case f.hasExchangeFlags():
		return opts, errors.New("--exchange-url is missing; the other --exchange flags require it")
	}
	return opts, nil
}

// setClientCredential sets the client's credential for the endpoint in x, if the flags for it are
// set.
func (f *flags) setClientCredential(x *token.Exchange) error {
	if (f.clientID == "") != (f.secretFile == "") {
		return errors.New("--exchange-client-id and --exchange-client-secret-file must be set together")
	}
	if f.clientID != "" {
		x.BasicAuth = &token.BasicAuth{Username: f.clientID, Password: "{file:" + f.secretFile + "}"}
	}
	return nil
}

// conflictingFlag returns the name of a flag that is set and that excludes the flag name. It returns
// "" if there is none.
func (f *flags) conflictingFlag(name string) (other string) {
	f.set.Visit(func(flag *pflag.Flag) {
		if flag.Name != name && flag.Name != "other-hosts" && flag.Name != "v" && flag.Name != "version" {
			other = flag.Name
		}
	})
	return other
}

func (f *flags) hasExchangeFlags() bool {
	return f.exchangeFields != token.TokenExchange{} || f.clientID != "" || f.secretFile != "" || f.exchange.CAFile != "" || f.exchange.InsecureHTTP
}
