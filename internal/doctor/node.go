// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/lint"
)

// Node checks what is on this machine: the configuration of o, its executables,
// who may change them, and the node's docker config files, which dockerConfig
// reads. It returns the configuration if that is valid.
func (r *Report) Node(ctx context.Context, n node.Node, o *node.Origin, dockerConfig regcred.Source) *config.Config {
	cfg, err := config.Load(o.Config)
	if err == nil {
		err = cfg.Validate()
	}
	if node.Denied(err) != nil {
		r.Fail("config", node.Denied(err), "")
		return nil
	}
	if err != nil {
		r.Fail("config", err, "a kubelet does not start with this; mend it and run: regcred validate "+terminal.ShellPath(o.Config))
		return nil
	}
	what := fmt.Sprintf("%s (%s): %s", o.Config, o.From, terminal.Count(len(cfg.Providers), "provider"))
	if slices.ContainsFunc(cfg.Files(), (*config.File).Predecessor) {
		r.Add("config", Warn, "regcred convert "+terminal.ShellPath(o.Config), "%s, accepted by regcred; no kubelet starts with it", what)
	} else {
		r.Add("config", OK, "", "%s, accepted by kubelet %s", what, config.NewestKubelet)
	}
	r.checkFindings("lint", lint.Check(cfg), "no pattern or setting that cannot work")
	r.checkFindings("executables", lint.BinDir(cfg, o.BinDir), fmt.Sprintf("%s in %s", terminal.Count(len(cfg.Providers), "executable"), o.BinDir))
	r.checkPaths(n, o, cfg)
	r.checkMirrors(n, cfg)
	r.checkDockerConfig(ctx, dockerConfig)
	return cfg
}

// checkFindings turns findings of the linter into checks; ok says what is so
// if none of them is serious.
func (r *Report) checkFindings(check string, findings []lint.Finding, ok string) {
	serious := false
	for _, f := range findings {
		result := Warn
		switch {
		case f.Severity == lint.SeverityInfo:
			continue
		case f.Severity == lint.SeverityError || StopsKubelet(f):
			result = Fail
		}
		serious = true
		fix := ""
		if f.Suggestion != "" {
			fix = "instead: " + f.Suggestion
		}
		r.Add(check, result, fix, "%s", FindingText(f))
	}
	if !serious {
		r.Add(check, OK, "", "%s", ok)
	}
}

// checkPaths looks for paths that others may change. Those that were given by
// flags are used all the same, so there it is a warning.
func (r *Report) checkPaths(n node.Node, o *node.Origin, cfg *config.Config) {
	err := n.CheckTrust(o, Names(cfg))
	found, ok := errors.AsType[*node.Untrusted](err)
	switch {
	case err == nil:
		r.Add("paths", OK, "", "nobody but root and this user can change the configuration and the executables")
	case ok && !o.Discovered:
		r.Add("paths", Warn, found.Mend, "%s is %s", found.Path, found.Who)
	default:
		r.Fail("paths", err, "")
	}
}

// checkDockerConfig reads the node's docker config files. A kubelet passes
// over what it cannot use, so a pull need not fail for want of it.
func (r *Report) checkDockerConfig(ctx context.Context, source regcred.Source) {
	sets, err := source.Auths(ctx, "registry.example")
	for _, e := range terminal.Flatten(err) {
		fix := "mend or remove it"
		if errors.Is(e, fs.ErrPermission) {
			fix = "run it as root (sudo)"
		}
		r.Add("docker-config", Warn, fix, "%v; a kubelet passes over it without a word", e)
	}
	for _, s := range sets {
		r.Add("docker-config", OK, "", "%s: logins for %d registries", s.Origin.File, len(s.Auths))
	}
	if len(sets) == 0 && err == nil {
		r.Add("docker-config", OK, "", "the node has no docker config file")
	}
}
