// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/textfmt"
)

// TargetKubelet identifies the kubelet for which a configuration was validated.
type TargetKubelet struct {
	config.Target
	caveat string // why the node's kubelet may treat the configuration differently
}

// Caveat returns why the node's kubelet may treat the configuration differently. The text is in
// parentheses after a space. It is "" if there is no reason.
func (j TargetKubelet) Caveat() string {
	if j.caveat == "" {
		return ""
	}
	return " (" + j.caveat + ")"
}

// TargetKubelet returns the kubelet that the node's service would start next. Its version may
// be unknown.
func (s *Setup) TargetKubelet() TargetKubelet {
	j := TargetKubelet{Target: s.Target()}
	switch v := s.Version; {
	case v.Kubelet == "" && v.Why != "":
		j.caveat = fmt.Sprintf("assuming kubelet version %s, because this node's kubelet version is unknown: %s", config.NewestKubelet, v.Why)
	case len(s.Unread) > 0:
		j.caveat = "the check might be incomplete, because this user cannot read " + strings.Join(s.Unread, ", ")
	}
	return j
}

// Load loads and validates the configuration of an origin from [Reader.Find]. It fails if
// [Reader.ValidateConfig] or [Node.CheckDiscovered] fails, or if ctx ends. Errors with a hint
// are of type *[HintError].
func (o *Origin) Load(ctx context.Context) (*config.Config, error) {
	cfg, err := config.Load(o.Config)
	var target TargetKubelet
	if err == nil {
		// Check trust first, because ValidateConfig may run a kubelet that the origin names.
		if err := o.reader.CheckDiscovered(o, cfg); err != nil {
			return nil, err
		}
		target, err = o.reader.ValidateConfig(ctx, o, cfg)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	if err := UncheckedError(err); err != nil {
		return nil, err
	}
	if errors.Is(err, fs.ErrNotExist) {
		hint := "the kubelet would not start without this configuration; set another path or create the file"
		if !filepath.IsAbs(o.Config) {
			hint += " (this path is relative to the working directory)"
		}
		return nil, withHint(err, hint)
	}
	if err != nil {
		return nil, withHint(err, fmt.Sprintf("the kubelet would not start with this configuration%s; fix the configuration and check it with \"%s\"", target.Caveat(), ValidateCommand(target.Target, o.Config)))
	}
	return cfg, nil
}

// CheckDiscovered calls [Node.CheckTrust] if regcred found the configuration itself. A
// configuration that the user has set is used even if other users can change it.
func (n Node) CheckDiscovered(o *Origin, cfg *config.Config) error {
	if !o.Discovered {
		return nil
	}
	names := make([]string, len(cfg.Providers))
	for i := range cfg.Providers {
		names[i] = cfg.Providers[i].Name
	}
	return n.CheckTrust(o, names)
}

// ValidateConfig validates a configuration for o.Target, or else for the newest supported kubelet
// version. If the configuration is invalid for that version and the version of the origin's kubelet
// is known, ValidateConfig validates it for the origin's kubelet. It returns the kubelet for which
// the configuration was validated.
//
// If only an older kubelet accepts the configuration, ValidateConfig converts it to an
// equivalent one for newer kubelets ([entries.SetDefaultCacheType]).
func (r *Reader) ValidateConfig(ctx context.Context, o *Origin, cfg *config.Config) (TargetKubelet, error) {
	if o.Target != nil {
		return TargetKubelet{Target: *o.Target}, validateFor(cfg, *o.Target)
	}
	newest := TargetKubelet{Target: config.Target{KubeletVersion: config.NewestKubelet}}
	err := cfg.Validate()
	if err == nil || slices.ContainsFunc(cfg.Files(), (*config.File).OutOfTree) {
		return newest, err
	}
	own := r.targetKubelet(ctx, o)
	if own.KubeletVersion == "" {
		newest.caveat = own.caveat
		return newest, err
	}
	return own, validateFor(cfg, own.Target)
}

// validateFor validates a configuration, and converts it to an equivalent one for newer
// kubelets.
func validateFor(cfg *config.Config, t config.Target) error {
	if err := cfg.ValidateFor(t); err != nil {
		return err
	}
	entries.SetDefaultCacheType(cfg.Providers)
	return nil
}

// targetKubelet returns the origin's kubelet: the running kubelet or, if none is running, the
// kubelet of the node's service, if there is one. Its version may be unknown.
func (r *Reader) targetKubelet(ctx context.Context, o *Origin) TargetKubelet {
	if o.KubeletPID != 0 {
		if s := r.runningSetup(ctx, o.KubeletPID); s != nil {
			return s.TargetKubelet()
		}
	}
	own := r.InstalledKubelet(ctx)
	if own.KubeletVersion == "" && !o.HasKubeletEnvironment() && !o.Discovered {
		own.caveat = "" // the configuration may be for another machine
	}
	return own
}

// InstalledKubelet returns the kubelet of the node's service. Its version is "" if it is unknown or
// there is no kubelet.
func (r *Reader) InstalledKubelet(ctx context.Context) TargetKubelet {
	s, err := r.Setup(ctx)
	if err != nil {
		return TargetKubelet{}
	}
	return s.TargetKubelet()
}

// runningSetup returns the version and feature gates of a running kubelet. The kubelet's
// executable may have been replaced since it started. runningSetup returns nil if the process
// is another program, such as k3s.
func (n Node) runningSetup(ctx context.Context, pid int) *Setup {
	p, err := n.openProcess(pid)
	if err != nil {
		return nil
	}
	defer p.Close()
	args, err := p.readStrings("cmdline")
	if err != nil || p.commandName() != "kubelet" || p.checkOwner(os.Geteuid()) != nil {
		return nil
	}
	flags := args
	if dir, err := os.Readlink(p.procPath("cwd")); err == nil {
		flags = absoluteConfigFlags(args, dir)
	}
	r := n.newFileCache().newReader(ctx) // new cache, because the next start may use other files
	gates := featureGates(args, r.kubeletConfig(r.configFiles(flags)))
	return &Setup{Version: n.runVersion(ctx, "kubelet", p.procPath("exe")), Gates: gates, Unread: r.unreadablePaths}
}

// ValidateCommand returns a regcred validate command that reports all errors of a
// configuration.
func ValidateCommand(t config.Target, path string) string {
	command, before := "regcred validate", " --feature-gates "
	if t.KubeletVersion != "" && t.KubeletVersion != config.NewestKubelet {
		command += " --kubelet-version " + t.KubeletVersion
	}
	for _, name := range slices.Sorted(maps.Keys(t.FeatureGates)) {
		if IsProviderGate(name) {
			command += fmt.Sprintf("%s%s=%t", before, name, t.FeatureGates[name])
			before = ","
		}
	}
	return command + " " + textfmt.QuoteShellPath(path)
}
