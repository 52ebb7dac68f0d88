// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/regcred/regcred/config"
)

// Load loads the configuration of an origin. It refuses what [Node.Accept] and
// [Node.CheckFound] refuse. An *[Error] has a hint. The kubelet that is asked for its
// version has time until ctx ends, of which there is an error then.
func (n Node) Load(ctx context.Context, o *Origin) (*config.Config, error) {
	cfg, err := config.Load(o.Config)
	var judge Judge
	if err == nil {
		// First: the place may say which program the kubelet is, which is asked.
		if err := n.CheckFound(o, cfg); err != nil {
			return nil, err
		}
		judge, err = n.Accept(ctx, o, cfg, nil)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx) // perhaps no kubelet has answered
		}
	}
	if err := Denied(err); err != nil {
		return nil, err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, withHint(err, absentHint(o.Config))
	}
	if err != nil {
		return nil, withHint(err, fmt.Sprintf("the kubelet would not start with this configuration%s; fix the configuration and check it with \"%s\"", judge.Doubt(), ValidateCommand(judge.Target, o.Config)))
	}
	return cfg, nil
}

func absentHint(config string) string {
	const hint = "the kubelet would not start without this configuration; set another path or create the file"
	if !filepath.IsAbs(config) {
		return hint + " (this path is relative to the working directory)"
	}
	return hint
}

// CheckFound is [Node.CheckTrust] for what was found. What was given is used
// whoever may change it.
func (n Node) CheckFound(o *Origin, cfg *config.Config) error {
	if !o.Discovered {
		return nil
	}
	names := make([]string, len(cfg.Providers))
	for i := range cfg.Providers {
		names[i] = cfg.Providers[i].Name
	}
	return n.CheckTrust(o, names)
}
