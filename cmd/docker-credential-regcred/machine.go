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
)

const name = "docker-credential-regcred"

// asking is set in the environment of plugins: who of them reads a docker config
// file that names this helper would ask it again, and so on.
const asking = dockerjson.CallerVariable

// machine is where the program runs.
type machine struct {
	root    string // where its paths begin: "/", except in tests
	environ []string
}

// load finds the configuration as "regcred get" does without flags, and loads it.
func (m machine) load(ctx context.Context) (*config.Config, *node.Origin, error) {
	if by := node.Getenv(m.environ, asking); by != "" {
		return nil, nil, fmt.Errorf("%s was called by a credential provider that it had started itself (%s is set): remove the helper from the docker config file that the provider reads", by, asking)
	}
	const configBy, binDirBy = "REGCRED_CONFIG", "REGCRED_BIN_DIR"
	n := node.Node{Root: m.root, ConfigBy: configBy, BinDirBy: binDirBy}
	want := node.Want{
		Config: node.Getenv(m.environ, configBy), BinDir: node.Getenv(m.environ, binDirBy), NeedBinDir: true,
		Environ: m.environ,
	}
	if want.BinDir != "" {
		var err error
		if want.BinDir, err = filepath.Abs(want.BinDir); err != nil {
			return nil, nil, err
		}
	}
	o, err := n.Find(want)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := n.Load(ctx, o)
	if err != nil && want.Config != "" {
		err = fmt.Errorf("%s: %w", configBy, err) // who has set it may have forgotten
	}
	return cfg, o, err
}
