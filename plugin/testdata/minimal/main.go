// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command minimal is a complete plugin. A test measures its size, and a benchmark measures its
// start time.
package main

import (
	"context"
	"time"

	"github.com/regcred/regcred/plugin"
)

func main() {
	plugin.Main(plugin.ProviderFunc(func(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
		return &plugin.Response{
			CacheKeyType:  plugin.CacheRegistry,
			CacheDuration: new(10 * time.Minute),
			Auth:          map[string]plugin.AuthConfig{"registry.example": {Username: "ci", Password: plugin.NewSecret("open-sesame")}},
		}, nil
	}))
}
