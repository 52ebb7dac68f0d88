// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command token-credential-provider is a kubelet credential provider plugin
// that answers with the pod's service-account token, or with what an endpoint
// gives for it. See docs/plugins/token.md.
package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/regcred/regcred/internal/pluginmain"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/provider/token"
)

// version is set by release builds: -ldflags "-X main.version=v1.2.3". The
// linker can only reach a package variable; nothing else writes it.
var version string

func main() { program().Main() }

func program() pluginmain.Program {
	f := flags{set: pluginmain.Flags()}
	f.define()
	return pluginmain.Program{
		Name: "token-credential-provider", Version: version, Flags: f.set,
		Summary: "Answers a kubelet's request for registry credentials with the service-account token\n" +
			"of the pod, or with what an endpoint gives for it.",
		Example: example,
		New:     func(in pluginmain.Input) (plugin.Provider, error) { return f.provider(in) },
	}
}

const example = `  The token itself is the password:
    token-credential-provider --registry=registry.example.com --audience=registry.example.com

  It is exchanged (RFC 8693) for a password:
    token-credential-provider --registry=registry.example.com --username=robot \
      --exchange-url=https://sts.example.com/token --exchange-audience=registry

  It is exchanged as a file says (docs/plugins/token.md):
    token-credential-provider --config=/etc/token-credential-provider/quay.yaml`

// flags are the flags as they were given.
type flags struct {
	set           *pflag.FlagSet
	config        string
	opts          token.Options
	cacheDuration time.Duration
	exchange      token.Exchange
	fields        token.TokenExchange
	client        string
	secretFile    string
}

func (f *flags) define() {
	f.set.StringVar(&f.config, "config", "", "`file` that says how tokens are exchanged, in place of all other flags but --other-hosts")
	f.set.StringSliceVar(&f.opts.Registries, "registry", nil, "`pattern`, as in matchImages, of a registry that may be given credentials; may be repeated")
	f.set.StringVar(&f.opts.Username, "username", "", "user `name`, which may have placeholders such as {namespace} (default \""+token.DefaultUsername+"\" for the token itself)")
	f.set.StringVar(&f.opts.Audience, "audience", "", "`audience` that the token must be for; required for the token itself")
	f.set.StringVar(&f.opts.TokenFile, "token-file", "", "absolute `path` of a token for requests that have none, such as those of static pods")
	f.set.BoolVar(&f.opts.Optional, "optional", false, "answer pods without a token with no credentials, instead of failing")
	f.set.DurationVar(&f.cacheDuration, "cache-duration", 0, "how long an answer may be reused at most, and if nothing says when it expires")
	f.set.StringVar(&f.exchange.URL, "exchange-url", "", "`URL` of a token endpoint (RFC 8693) that gives the password for the token")
	f.set.StringVar(&f.fields.Audience, "exchange-audience", "", "`audience` to ask the endpoint for")
	f.set.StringVar(&f.fields.Scope, "exchange-scope", "", "`scope` to ask the endpoint for")
	f.set.StringVar(&f.fields.Resource, "exchange-resource", "", "`resource` to ask the endpoint for")
	f.set.StringVar(&f.client, "exchange-client-id", "", "`id` of this client at the endpoint, for HTTP Basic authentication")
	f.set.StringVar(&f.secretFile, "exchange-client-secret-file", "", "absolute `path` of the client's secret")
	f.set.StringVar(&f.exchange.CAFile, "exchange-ca-file", "", "`path` of authorities in PEM to trust beside the system's")
	pluginmain.OtherHosts(f.set, &f.opts.OtherHosts)
	f.set.BoolVar(&f.exchange.InsecureHTTP, "exchange-insecure-http", false, "allow an endpoint without TLS, to which everybody on the way can read the token")
}

func (f *flags) provider(in pluginmain.Input) (plugin.Provider, error) {
	opts, err := f.options()
	if err != nil {
		return nil, err
	}
	opts.Log = in.Log
	return token.New(opts)
}

func (f *flags) options() (token.Options, error) {
	if f.set.Changed("config") {
		if other := f.besides("config"); other != "" {
			return token.Options{}, fmt.Errorf("--config and --%s: the file says it all", other)
		}
		opts, err := token.Load(f.config)
		opts.OtherHosts = f.opts.OtherHosts
		return opts, err
	}
	opts := f.opts
	if f.set.Changed("cache-duration") {
		opts.CacheDuration = &f.cacheDuration
	}
	switch {
	case f.exchange.URL != "":
		x := f.exchange
		x.TokenExchange = &f.fields
		opts.Exchange = &x
		return opts, f.authenticate(&x)
	case f.anyExchange():
		return opts, errors.New("--exchange-url is missing, which the other flags of the exchange need")
	}
	return opts, nil
}

// authenticate adds the client's own credential.
func (f *flags) authenticate(x *token.Exchange) error {
	if (f.client == "") != (f.secretFile == "") {
		return errors.New("--exchange-client-id and --exchange-client-secret-file: one needs the other")
	}
	if f.client != "" {
		x.BasicAuth = &token.BasicAuth{Username: f.client, Password: "{file:" + f.secretFile + "}"}
	}
	return nil
}

// besides returns a flag of the provider's own other than that one, or "".
func (f *flags) besides(name string) (other string) {
	f.set.Visit(func(flag *pflag.Flag) {
		if flag.Name != name && flag.Name != "other-hosts" && flag.Name != "v" && flag.Name != "version" {
			other = flag.Name
		}
	})
	return other
}

func (f *flags) anyExchange() bool {
	return f.fields != token.TokenExchange{} || f.client != "" || f.secretFile != "" || f.exchange.CAFile != "" || f.exchange.InsecureHTTP
}
