// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command goplugin is an example of a plugin in Go. It returns a password from the file
// in its first argument.
package main

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/regcred/regcred/plugin"
)

func main() {
	plugin.Main(plugin.ProviderFunc(func(_ context.Context, req *plugin.Request) (*plugin.Response, error) {
		password, err := os.ReadFile(os.Args[1])
		if err != nil {
			return nil, err
		}
		registry, _, _ := strings.Cut(req.Image, "/")
		return &plugin.Response{
			CacheKeyType:  plugin.CacheRegistry,
			CacheDuration: new(time.Minute),
			Auth:          map[string]plugin.AuthConfig{registry: {Username: "ci", Password: plugin.NewSecret(string(password))}},
		}, nil
	}))
}
