// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/install"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/pull"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/service"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/internal/textfmt"
)

// nodeChangeFlags holds the flags shared by "install", "status", "rollback" and
// "uninstall".
type nodeChangeFlags struct {
	output         *enumFlag
	root           string
	stateDir       string
	kubeletVersion string // kubelet version to use if the kubelet cannot be run

	restart       bool
	healthTimeout time.Duration
	minHealthy    time.Duration
	probe         string // image to pull
}

func addChangeFlags(cmd *cobra.Command, formats ...string) *nodeChangeFlags {
	c := &nodeChangeFlags{output: addOutputFlag(cmd, formats...)}
	f := cmd.Flags()
	f.StringVar(&c.root, "root", "", "root `directory` of another node: an image being built, or a mounted disk")
	f.StringVar(&c.stateDir, "state-dir", generation.DefaultDir, "`directory` on the node where generations are stored")
	return c
}

// addRestartFlags adds the flags that control a kubelet restart. If probe is true, it also adds
// --probe.
func addRestartFlags(cmd *cobra.Command, c *nodeChangeFlags, probe bool) {
	f := cmd.Flags()
	f.BoolVar(&c.restart, "restart", false, "allow a kubelet restart if one is needed; running containers are not affected")
	f.DurationVar(&c.healthTimeout, "timeout", 4*time.Minute, "maximum `time` for a restarted kubelet to become healthy before the change is rolled back")
	f.DurationVar(&c.minHealthy, "stable", 10*time.Second, "`time` for which the kubelet must stay healthy without interruption")
	if probe {
		f.StringVar(&c.probe, "probe", "", "`image` to pull after the change, with the kubelet's credentials; if the pull fails, the change is rolled back")
	}
}

// ownerPattern matches NAMESPACE/RELEASE.
var ownerPattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`)

func checkOwner(owner string) error {
	if owner != "" && !ownerPattern.MatchString(owner) {
		return usageError("", "--owner %q must have the form NAMESPACE/RELEASE", owner)
	}
	return nil
}

func (c *nodeChangeFlags) check() error {
	switch {
	case !path.IsAbs(c.stateDir):
		return usageError("", "--state-dir is %q; it must be an absolute path on the node", c.stateDir)
	case c.healthTimeout < 0 || c.minHealthy < 0:
		return usageError("", "--timeout is %v and --stable is %v; neither can be negative", c.healthTimeout, c.minHealthy)
	case c.restart && c.root != "":
		return usageError("omit --restart: the other node's kubelet loads the change when it starts", "--restart and --root are mutually exclusive")
	case c.probe != "" && c.root != "":
		return usageError("omit --probe: the other node is not running, so it cannot pull", "--probe and --root are mutually exclusive")
	}
	return checkKubeletVersion(c.kubeletVersion)
}

// newInstaller returns an installer for the node that the flags select.
func (a *app) newInstaller(ctx context.Context, c *nodeChangeFlags) (*install.Installer, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.root != "" {
		abs, err := filepath.Abs(c.root)
		if err != nil {
			return nil, err
		}
		if info, err := os.Stat(abs); err != nil {
			return nil, fmt.Errorf("--root: %w", err)
		} else if !info.IsDir() {
			return nil, fmt.Errorf("--root %s: not a directory", c.root)
		}
		if c.root = abs; c.root == string(filepath.Separator) {
			c.root = "" // the root of this machine needs no prefix
		}
	}
	look := func(ctx context.Context) (*node.Setup, error) {
		setup, err := node.Node{Root: c.root}.NewReader().Setup(ctx)
		if err == nil && c.kubeletVersion != "" {
			setup.Version.Kubelet = c.kubeletVersion
		}
		return setup, err
	}
	setup, err := look(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range setup.Unread {
		a.Warn("%s cannot be read, so the result might be inaccurate: run this command as root (sudo)", name)
	}
	in := &install.Installer{
		Store: generation.Store{FS: inroot.FS{Root: c.root}, Dir: path.Clean(c.stateDir)},
		Setup: setup, ReadSetup: look, Version: buildVersion(), Criteria: service.HealthCriteria{Health: setup.Health.URL, Timeout: c.healthTimeout, MinHealthy: c.minHealthy},
		Progress: func(text string) { a.Note("%s", text) },
	}
	if c.root == "" {
		in.Service = kubeletService(setup)
	}
	if c.probe != "" {
		in.Probe = func(ctx context.Context) error { return a.probePull(ctx, in, c.probe) }
	}
	return in, nil
}

// kubeletService returns the service that runs the kubelet.
func kubeletService(s *node.Setup) service.Service {
	k := service.Service{Name: s.Service, LogFile: s.KubeletLog()}
	if m, err := service.Detect(); err == nil { // if no service manager is found, a restart returns an error
		k.Manager = m
	}
	return k
}

// probePull pulls an image into the node's runtime. It looks up credentials with the providers that
// are configured in the kubelet, in the kubelet's environment.
func (a *app) probePull(ctx context.Context, in *install.Installer, image string) error {
	status, err := in.Status(ctx)
	if err != nil {
		return err
	}
	if status.Current == nil {
		return errors.New("no generation is current")
	}
	o, err := a.kubeletOrigin(ctx)
	if err != nil {
		return err
	}
	cfg, err := config.Load(status.Current.Layout.ConfigFlag)
	if err != nil {
		return err
	}
	entries.SetDefaultCacheType(cfg.Providers) // kubelet 1.33 accepts tokenAttributes without a cacheType
	k, err := regcred.New(cfg, regcred.Options{BinDir: status.Current.Layout.BinDir, Environ: o.Environ, Dir: o.Dir})
	if err != nil {
		return err
	}
	defer k.Close()
	endpoint, err := a.localNode().RuntimeEndpoint(node.AutoEndpoint, o)
	if err != nil {
		return err
	}
	runtime, err := pull.DialRuntime(ctx, endpoint, pull.RuntimeOptions{OnRejected: k.Invalidate})
	if err != nil {
		return err
	}
	defer runtime.Close()
	_, err = runtime.Pull(ctx, image, pull.PullAlways, func(ctx context.Context) ([]regcred.Credential, error) {
		result, err := k.Lookup(ctx, regcred.Request{Image: image})
		if result == nil {
			return nil, err
		}
		return result.Credentials, err
	})
	return err
}

// kubeletOrigin returns the environment of the running kubelet. If another program
// embeds the kubelet, it returns the caller's environment.
func (a *app) kubeletOrigin(ctx context.Context) (*node.Origin, error) {
	n := a.localNode().NewReader()
	setup, err := n.Setup(ctx)
	if err != nil {
		return nil, err
	}
	if r := setup.Running; r != nil && r.Flags != nil {
		return n.FindEnvironment(ctx, node.FindOptions{AsKubelet: strconv.Itoa(r.PID)})
	}
	return &node.Origin{Environ: a.environ, Dir: a.dir}, nil
}

// withChangeHint adds a hint to an error of install, status, rollback or uninstall.
func withChangeHint(err error) error {
	if e, ok := errors.AsType[*install.OwnerError](err); ok {
		return withHint(err, e.Hint())
	}
	if e, ok := errors.AsType[*install.NextStartError](err); ok {
		return withHint(err, e.Hint())
	}
	if e, ok := errors.AsType[*service.Error](err); ok {
		return withHint(err, e.Hint)
	}
	return cmp.Or(node.UncheckedError(err), err)
}

// printKubeletLog prints the last log lines of an unhealthy kubelet.
func (a *app) printKubeletLog(err error) {
	if e, ok := errors.AsType[*service.UnhealthyError](err); ok {
		for _, line := range e.Lines {
			a.Note("%s: %s", e.Unit, line)
		}
	}
}

// newChangeReport returns the report of an install.
func newChangeReport(p *install.Plan, dryRun bool, err error) *report.Change {
	r := emptyChangeReport(report.ChangeInstalled)
	r.Generation, r.Previous, r.Restart, r.Warnings = p.To.Number, p.To.Previous, nonNilSlice(p.Restart), nonNilSlice(p.Warnings)
	switch {
	case err != nil:
		markFailed(r, err)
	case dryRun:
		r.Outcome, r.Generation = report.ChangePlanned, 0
	case p.UpToDate && len(p.Restart) == 0:
		r.Outcome, r.Generation = report.ChangeUnchanged, p.From.Number
	case p.UpToDate: // restarted the kubelet without creating a generation
		r.Outcome, r.Generation, r.Previous = report.ChangeRepaired, p.From.Number, p.From.Previous
	case p.Reactivate && p.To.Number == p.From.Number:
		r.Outcome = report.ChangeRepaired
	case p.Reactivate:
		r.Outcome = report.ChangeRolledBack
	}
	if p.Reactivate {
		r.Previous = p.From.Number
	}
	for _, c := range p.Caches {
		r.Caches = append(r.Caches, report.CacheLimit{Provider: c.Provider, Configured: c.Configured.Seconds(), Limit: c.Limit.Seconds()})
	}
	for _, d := range p.Diffs {
		r.Changes = append(r.Changes, report.FileChange{Name: d.Name, Diff: d.Text})
	}
	return r
}

// emptyChangeReport returns a report whose lists are empty and not nil, so that install prints them
// as [].
func emptyChangeReport(outcome report.ChangeOutcome) *report.Change {
	return &report.Change{Outcome: outcome, Restart: []string{}, Warnings: []string{}, Changes: []report.FileChange{}}
}

// markFailed sets the outcome, the error and the hint of a failed change.
func markFailed(r *report.Change, err error) {
	r.Outcome, r.Generation, r.Error = report.ChangeFailed, 0, textfmt.EscapeLine(err.Error())
	_, r.Restarted = errors.AsType[*install.RestartedError](err)
	if e, ok := errors.AsType[*node.HintError](withChangeHint(err)); ok {
		r.Hint = textfmt.EscapeLine(e.Hint)
	}
	if e, ok := errors.AsType[*install.OwnerError](err); ok {
		r.Outcome, r.Owner = report.ChangeOwned, e.Owner
	}
}

func nonNilSlice[T any](list []T) []T { return append([]T{}, list...) }

func renderInstall(t *terminal.Text, r *report.Change, p *install.Plan) {
	for _, c := range r.Changes {
		t.Quote("", strings.TrimSuffix(c.Diff, "\n"))
	}
	if len(r.Changes) > 0 {
		t.BlankLine()
	}
	switch r.Outcome {
	case report.ChangeInstalled:
		t.MarkedLine(terminal.MarkOK, fmt.Sprintf("generation %d is current", r.Generation))
	case report.ChangeRolledBack:
		t.MarkedLine(terminal.MarkOK, fmt.Sprintf("reactivated generation %d, which already has the requested content", r.Generation))
	case report.ChangeRepaired:
		t.MarkedLine(terminal.MarkOK, fmt.Sprintf("generation %d is current and has been repaired", r.Generation))
	case report.ChangeUnchanged:
		t.MarkedLine(terminal.MarkOK, fmt.Sprintf("generation %d is already up to date; nothing was changed", r.Generation))
	case report.ChangePlanned:
		for _, why := range r.Restart {
			t.MarkedLine(terminal.MarkInfo, "the kubelet must be restarted: "+why)
		}
		if len(r.Restart) == 0 {
			t.MarkedLine(terminal.MarkInfo, "no kubelet restart is needed")
		}
		for _, c := range p.Caches {
			t.MarkedLine(terminal.MarkInfo, fmt.Sprintf("%s: the kubelet caches a response for at most %s instead of %s, so the plugin runs up to %d times as often; --max-stale changes this",
				c.Provider, terminal.FormatDuration(c.Limit), terminal.FormatDuration(c.Configured), c.MoreRuns()))
		}
		if p.Reactivate {
			t.MarkedLine(terminal.MarkInfo, fmt.Sprintf("generation %d is already up to date; no new generation would be created", p.To.Number))
		}
		t.MarkedLine(terminal.MarkOK, "nothing was changed (--dry-run)")
	}
}
