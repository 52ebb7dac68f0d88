// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package ours is regcred, asked about cases of package corpus; what it answers
// has the form in which package kubelet has what a kubelet answers.
package ours

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

// Keyring makes a keyring of providers that answer as given, and match all
// that is looked up.
func Keyring(answers []map[string]corpus.Auth, opts regcred.Options) (*regcred.Keyring, error) {
	c := &config.Config{}
	opts.BinDir = os.TempDir()
	opts.InProcess = map[string]plugin.Provider{}
	for i, a := range answers {
		name := fmt.Sprintf("p%d", i)
		c.Providers = append(c.Providers, config.Provider{
			Name: name, APIVersion: plugin.V1, DefaultCacheDuration: new(time.Hour), MatchImages: corpus.Everything,
		})
		opts.InProcess[name] = Answering(a)
	}
	return regcred.New(c, opts)
}

// Answering is a provider that gives one answer, for the image asked about.
func Answering(m map[string]corpus.Auth) plugin.Provider {
	resp := &plugin.Response{CacheKeyType: plugin.CacheImage, Auth: map[string]plugin.AuthConfig{}}
	for k, a := range m {
		resp.Auth[k] = plugin.AuthConfig{Username: string(a.Username), Password: plugin.NewSecret(string(a.Password))}
	}
	return plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) { return resp, nil })
}

// Auths returns user names and passwords alone.
func Auths(res *regcred.Result) []corpus.Auth {
	out := []corpus.Auth{}
	for _, c := range res.Credentials {
		out = append(out, corpus.Auth{Username: corpus.Text(c.Username), Password: corpus.Text(c.Password.Reveal())})
	}
	return out
}
