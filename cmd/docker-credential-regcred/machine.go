// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/dockerjson"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/serve/client"
)

const programName = "docker-credential-regcred"

// recursionEnv is set in the environment of plugins, so that the helper can detect that a plugin
// called it. A plugin that reads a docker config file with this helper would otherwise call the
// helper again, without end.
const recursionEnv = dockerjson.CallerEnvName

// Environment variables with the user's configuration.
const configBy, binDirBy = "REGCRED_CONFIG", "REGCRED_BIN_DIR"

// environment holds the root directory and the environment variables of the machine.
type environment struct {
	root    string // prefix of all paths: "/", except in tests
	environ []string
}

// loadConfig finds and loads the configuration as "regcred get" does without flags.
func (m environment) loadConfig(ctx context.Context) (*config.Config, *node.Origin, error) {
	if by := node.Getenv(m.environ, recursionEnv); by != "" {
		return nil, nil, fmt.Errorf("%s was called by a credential provider that it had started itself (%s is set): remove the helper from the docker config file that the provider reads", by, recursionEnv)
	}
	n := node.Node{Root: m.root, ConfigSetting: configBy, BinDirSetting: binDirBy}
	want := node.FindOptions{
		Config: node.Getenv(m.environ, configBy), BinDir: node.Getenv(m.environ, binDirBy), NeedBinDir: true,
		Environ: m.environ,
	}
	if want.BinDir != "" {
		var err error
		if want.BinDir, err = filepath.Abs(want.BinDir); err != nil {
			return nil, nil, err
		}
	}
	o, err := n.NewReader().Find(ctx, want)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := o.Load(ctx)
	if err != nil && want.Config != "" {
		err = fmt.Errorf("%s: %w", configBy, err) // users may forget that the environment variable is set
	}
	return cfg, o, err
}

// serviceSelector returns the configuration that the node's credential service must use. It returns an
// error if the helper must not call the service, because a plugin of the service may have called it.
func (m environment) serviceSelector() (sel client.Selector, err error) {
	if node.Getenv(m.environ, recursionEnv) != "" {
		return sel, client.ErrUnavailable
	}
	for name, path := range map[string]*string{configBy: &sel.Config, binDirBy: &sel.BinDir} {
		if *path = node.Getenv(m.environ, name); *path != "" && err == nil {
			*path, err = filepath.Abs(*path)
		}
	}
	return sel, err
}
