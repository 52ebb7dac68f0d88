// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command good is a plugin that passes all checks.
package main

import (
	"context"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/plugin"
)

const registry = "registry.example"

func main() {
	plugin.Main(plugin.ProviderFunc(func(_ context.Context, req *plugin.Request) (*plugin.Response, error) {
		if req.Registry() != registry {
			return &plugin.Response{CacheKeyType: plugin.CacheImage, CacheDuration: new(time.Minute)}, nil
		}
		return &plugin.Response{
			CacheKeyType:  plugin.CacheRegistry,
			CacheDuration: new(10 * time.Minute),
			Auth:          map[string]plugin.AuthConfig{registry: {Username: "ci", Password: plugin.NewSecret(canary.PasswordSecret)}},
		}, nil
	}))
}
