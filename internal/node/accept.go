// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/shown"
)

// Accept says what the newest kubelet rejects of a configuration, or, where that
// rejects something, the kubelet of the origin that the configuration is from, if
// its version can be told; and which of them it was. What an older kubelet alone
// accepts is made what means the same to a newer one ([entries.SinceCacheType]).
func (n Node) Accept(ctx context.Context, o *Origin, cfg *config.Config) (kubelet config.Target, err error) {
	newest := config.Target{KubeletVersion: config.NewestKubelet}
	err = cfg.Validate()
	if err == nil || slices.ContainsFunc(cfg.Files(), (*config.File).Predecessor) {
		return newest, err
	}
	t := n.target(ctx, o)
	if t.KubeletVersion == "" {
		return newest, err
	}
	if err := cfg.ValidateFor(t); err != nil {
		return t, err
	}
	entries.SinceCacheType(cfg.Providers)
	return t, nil
}

// ValidateCommand is what says all that a kubelet rejects of the configuration at a path.
func ValidateCommand(t config.Target, path string) string {
	command, before := "regcred validate", " --feature-gates "
	if t.KubeletVersion != "" && t.KubeletVersion != config.NewestKubelet {
		command += " --kubelet-version " + t.KubeletVersion
	}
	for _, name := range config.FeatureGates() {
		if on, set := t.FeatureGates[name]; set {
			command += fmt.Sprintf("%s%s=%t", before, name, on)
			before = ","
		}
	}
	return command + " " + shown.ShellPath(path)
}

// target is the kubelet of an origin: the one that runs, or the one that the node's
// files start; the zero value if that is none, or its version cannot be told.
func (n Node) target(ctx context.Context, o *Origin) config.Target {
	if o.Kubelet != 0 {
		if t, ok := n.runningTarget(ctx, o.Kubelet); ok {
			return t
		}
	}
	if !o.OfKubelet() && !o.Discovered {
		return config.Target{} // what was given is for whichever kubelet
	}
	s, err := n.Setup(ctx)
	if err != nil {
		return config.Target{}
	}
	return s.Target()
}

// runningTarget is a kubelet that runs; false if the process is another program, as
// k3s, that has a kubelet inside. What its file is by now may be a newer one.
func (n Node) runningTarget(ctx context.Context, pid int) (config.Target, bool) {
	p, err := n.openProcess(pid)
	if err != nil {
		return config.Target{}, false
	}
	defer p.Close()
	args, err := p.list("cmdline")
	if err != nil || p.comm() != "kubelet" || p.checkOwner(os.Geteuid()) != nil {
		return config.Target{}, false
	}
	r := newReading(ctx, n)
	s := Setup{Version: r.ask("kubelet", p.at("exe"))}
	flags := kubeletFlags(args, "config", "config-dir")
	if dir, err := os.Readlink(p.at("cwd")); err == nil {
		for _, name := range []string{"config", "config-dir"} {
			if flags[name] != "" && !filepath.IsAbs(flags[name]) {
				flags[name] = dir + "/" + flags[name] // not cleaned: a slash at its end counts
			}
		}
	}
	s.Gates = r.gates(args, r.kubeletConfigs(flags, nil))
	return s.Target(), true
}
