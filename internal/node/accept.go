// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/shown"
)

// Judge is the kubelet whose verdict on a configuration it is.
type Judge struct {
	config.Target
	doubt string // why it may not be that of the node; "" if it is, or none is meant
}

// Doubt says, for behind "a kubelet would not start", why this node's may; "" if
// nothing is known against it.
func (j Judge) Doubt() string {
	if j.doubt == "" {
		return ""
	}
	return " (" + j.doubt + ")"
}

// Judge is the kubelet of the next start; without a version if that is not known.
func (s *Setup) Judge() Judge {
	j := Judge{Target: s.Target()}
	switch v := s.Version; {
	case v.Kubelet == "" && v.Why != "":
		j.doubt = fmt.Sprintf("assuming kubelet version %s, because this node's kubelet version is unknown: %s", config.NewestKubelet, v.Why)
	case len(s.Unread) > 0:
		j.doubt = "the check might be incomplete, because this user cannot read " + strings.Join(s.Unread, ", ")
	}
	return j
}

// Accept says what the newest kubelet rejects of a configuration, or, where that
// rejects something, the kubelet of the origin that the configuration is from, if
// its version can be told; and which of them it was. What an older kubelet alone
// accepts is made what means the same to a newer one ([entries.SinceCacheType]).
// Setup is what [Node.Setup] says, if that is known already; nil has it read if need be.
func (n Node) Accept(ctx context.Context, o *Origin, cfg *config.Config, setup *Setup) (Judge, error) {
	newest := Judge{Target: config.Target{KubeletVersion: config.NewestKubelet}}
	err := cfg.Validate()
	if err == nil || slices.ContainsFunc(cfg.Files(), (*config.File).Predecessor) {
		return newest, err
	}
	own := n.judge(ctx, o, setup)
	if own.KubeletVersion == "" {
		newest.doubt = own.doubt
		return newest, err
	}
	if err := cfg.ValidateFor(own.Target); err != nil {
		return own, err
	}
	entries.SinceCacheType(cfg.Providers)
	return own, nil
}

// ValidateCommand is what says all that a kubelet rejects of the configuration at a path.
func ValidateCommand(t config.Target, path string) string {
	command, before := "regcred validate", " --feature-gates "
	if t.KubeletVersion != "" && t.KubeletVersion != config.NewestKubelet {
		command += " --kubelet-version " + t.KubeletVersion
	}
	for _, name := range slices.Sorted(maps.Keys(t.FeatureGates)) {
		if GateCounts(name) {
			command += fmt.Sprintf("%s%s=%t", before, name, t.FeatureGates[name])
			before = ","
		}
	}
	return command + " " + shown.ShellPath(path)
}

// judge is the kubelet of an origin: the one that runs, or the one that the node's
// files start; without a version if that is none, or its version cannot be told.
func (n Node) judge(ctx context.Context, o *Origin, setup *Setup) Judge {
	if o.Kubelet != 0 {
		if s := n.runningSetup(ctx, o.Kubelet); s != nil {
			return s.Judge()
		}
	}
	if !o.OfKubelet() && !o.Discovered {
		return Judge{} // what was given is for whichever kubelet
	}
	if setup == nil {
		s, err := n.Setup(ctx)
		if err != nil {
			return Judge{} // interrupted, or no system of nodes
		}
		setup = s
	}
	return setup.Judge()
}

// runningSetup is version and gates of a kubelet that runs; nil if the process is
// another program, as k3s, that has a kubelet inside. What its file is by now may be a
// newer one.
func (n Node) runningSetup(ctx context.Context, pid int) *Setup {
	p, err := n.openProcess(pid)
	if err != nil {
		return nil
	}
	defer p.Close()
	args, err := p.list("cmdline")
	if err != nil || p.comm() != "kubelet" || p.checkOwner(os.Geteuid()) != nil {
		return nil
	}
	r := newReading(ctx, n)
	flags := kubeletFlags(args, "config", "config-dir")
	if dir, err := os.Readlink(p.at("cwd")); err == nil {
		for _, name := range []string{"config", "config-dir"} {
			if flags[name] != "" && !filepath.IsAbs(flags[name]) {
				flags[name] = dir + "/" + flags[name] // not cleaned: a slash at its end counts
			}
		}
	}
	s := &Setup{Version: r.ask("kubelet", p.at("exe")), Gates: gatesOf(args, r.kubeletConfig(flags))}
	s.Unread = r.unread
	return s
}
