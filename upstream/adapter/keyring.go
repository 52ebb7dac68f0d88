// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package adapter runs the cases of package corpus with regcred. It returns the results in the types
// of package kubelet, to compare them with the kubelet's results.
package adapter

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/corpus"
)

// NewKeyring returns a keyring whose providers match every image and return the given
// responses.
func NewKeyring(answers []map[string]corpus.Auth, opts regcred.Options) (*regcred.Keyring, error) {
	c := &config.Config{}
	opts.BinDir = os.TempDir()
	opts.InProcess = map[string]plugin.Provider{}
	for i, a := range answers {
		name := fmt.Sprintf("p%d", i)
		c.Providers = append(c.Providers, config.Provider{
			Name: name, APIVersion: plugin.V1, DefaultCacheDuration: new(time.Hour), MatchImages: corpus.MatchAllPatterns,
		})
		opts.InProcess[name] = StaticProvider(a)
	}
	return regcred.New(c, opts)
}

// StaticProvider returns a provider that always returns the same response, which is cached per
// image.
func StaticProvider(m map[string]corpus.Auth) plugin.Provider {
	resp := &plugin.Response{CacheKeyType: plugin.CacheImage, Auth: map[string]plugin.AuthConfig{}}
	for k, a := range m {
		resp.Auth[k] = plugin.AuthConfig{Username: string(a.Username), Password: plugin.NewSecret(string(a.Password))}
	}
	return plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) { return resp, nil })
}

// AuthsOf returns the user names and passwords of a result's credentials.
func AuthsOf(res *regcred.Result) []corpus.Auth {
	out := []corpus.Auth{}
	for _, c := range res.Credentials {
		out = append(out, corpus.Auth{Username: corpus.RawString(c.Username), Password: corpus.RawString(c.Password.Reveal())})
	}
	return out
}
