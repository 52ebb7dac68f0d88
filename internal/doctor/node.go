// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/spf13/cobra"
)

// doctorFlags are the flags of "regcred doctor".
type doctorFlags struct {
	output *choice
	kube   bool
	pod    objectName
	kubeFlags
}

// The results of a check.
const (
	doctorOK   = "ok"
	doctorSkip = "skip" // it could not be tried
	doctorWarn = "warning"
	doctorFail = "fail"
)

// doctorCheck is one thing that was looked at.
type doctorCheck struct {
	Check   string `json:"check"`   // its stable name
	Result  string `json:"result"`  // ok, skip, warning or fail
	Message string `json:"message"` // what is so
	Fix     string `json:"fix,omitempty"`
}

// doctorReport is the result of "regcred doctor -o json".
type doctorReport struct {
	Healthy bool          `json:"healthy"` // nothing failed: exit code 0
	Checks  []doctorCheck `json:"checks"`  // in the order in which a pull depends on them
}

func (a *app) doctorCmd() *cobra.Command {
	d := &doctorFlags{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what on this node would stop a pull, and say how to mend it",
		Long: `doctor looks at what a pull on this node depends on: the configuration, the
executables, who may change them, and the node's docker config files. It runs
no plugin.

With --kube it looks at the cluster too: whether the API server answers, whom it
takes this identity for, and whether that may read what a pull needs and request
tokens for the audiences of the configuration. With --pod it asks for such
tokens, as a dry run.

The exit code is 0 if nothing fails, and 1 otherwise.`,
		Example: `  sudo regcred doctor --as-kubelet
  sudo regcred doctor --as-kubelet --kube --pod team/app-1
  regcred doctor --config providers.yaml --bin-dir /opt/plugins -o json`,
		Args: atMost(),
	}
	d.output = addOutputFlag(cmd, "text", "json")
	f := cmd.Flags()
	f.BoolVar(&d.kube, "kube", false, "check the cluster too")
	f.Var(&d.pod, "pod", "check the cluster for this pod too, and request tokens for it as a dry run")
	d.kubeFlags.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.doctor(cmd.Context(), cmd.OutOrStdout(), d)
	}
	return cmd
}

func (a *app) doctor(ctx context.Context, out io.Writer, d *doctorFlags) error {
	r := &doctorReport{Checks: []doctorCheck{}}
	o, err := a.resolve("", true)
	if err, ok := errors.AsType[*exitError](err); ok && err.code == exitUsage {
		return err
	}
	var cfg *regcred.Config
	if err != nil {
		r.fail("config", err, "")
	} else {
		cfg = a.checkNode(ctx, r, o)
	}
	if d.kube || d.pod.given() || d.kubeFlags != (kubeFlags{}) {
		a.checkClusterFor(ctx, r, o, cfg, d)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return a.writeDoctor(out, d, r)
}

func (r *doctorReport) add(check, result, fix, format string, args ...any) {
	r.Checks = append(r.Checks, doctorCheck{check, result, fmt.Sprintf(format, args...), fix})
}

// fail records an error, and the hint that it has if fix is empty.
func (r *doctorReport) fail(check string, err error, fix string) {
	if e, ok := errors.AsType[*exitError](err); ok && fix == "" {
		fix = e.hint
	}
	for _, e := range terminal.Flatten(err) {
		r.add(check, doctorFail, fix, "%v", e)
	}
}

// checkNode looks at what is on this machine. It returns the configuration if
// that is valid.
func (a *app) checkNode(ctx context.Context, r *doctorReport, o *origin) *regcred.Config {
	cfg, err := regcred.Load(o.config)
	if err == nil {
		err = cfg.Validate()
	}
	if denied(err) != nil {
		r.fail("config", denied(err), "")
		return nil
	}
	if err != nil {
		r.fail("config", err, "a kubelet does not start with this; mend it and run: regcred validate "+terminal.ShellWord(o.config))
		return nil
	}
	what := fmt.Sprintf("%s (%s): %s", o.config, o.from, terminal.Count(len(cfg.Providers), "provider"))
	if slices.ContainsFunc(cfg.Files(), predecessor) {
		r.add("config", doctorWarn, "regcred convert "+terminal.ShellWord(o.config), "%s, accepted by regcred; no kubelet starts with it", what)
	} else {
		r.add("config", doctorOK, "", "%s, accepted by kubelet %s", what, regcred.NewestKubelet)
	}
	r.checkFindings("lint", cfg.Lint(), "no pattern or setting that cannot work")
	r.checkFindings("executables", cfg.LintBinDir(o.binDir), fmt.Sprintf("%s in %s", terminal.Count(len(cfg.Providers), "executable"), o.binDir))
	a.checkPaths(r, o, cfg)
	r.checkDockerConfig(ctx, o)
	return cfg
}

// checkFindings turns findings of the linter into checks; ok says what is so
// if none of them is serious.
func (r *doctorReport) checkFindings(check string, findings []regcred.Finding, ok string) {
	serious := false
	for _, f := range findings {
		result := doctorWarn
		switch {
		case f.Severity == regcred.SeverityInfo:
			continue
		case f.Severity == regcred.SeverityError || stopsKubelet(f):
			result = doctorFail
		}
		serious = true
		fix := ""
		if f.Suggestion != "" {
			fix = "instead: " + f.Suggestion
		}
		where := &regcred.FieldError{File: f.File, Line: f.Line, Column: f.Column, Path: f.Path, Msg: fmt.Sprintf("%s [%s]", f.Message, f.Rule)}
		r.add(check, result, fix, "%v", where)
	}
	if !serious {
		r.add(check, doctorOK, "", "%s", ok)
	}
}

// checkPaths looks for paths that others may change. Those that were given by
// flags are used all the same, so there it is a warning.
func (a *app) checkPaths(r *doctorReport, o *origin, cfg *regcred.Config) {
	err := a.checkTrust(o, cfg)
	e, ok := errors.AsType[*exitError](err)
	switch {
	case err == nil:
		r.add("paths", doctorOK, "", "nobody but root and this user can change the configuration and the executables")
	case ok && !o.discovered:
		_, what, _ := strings.Cut(e.Error(), ": ")
		fix, _, _ := strings.Cut(e.hint, "; ")
		r.add("paths", doctorWarn, fix, "%s", what)
	default:
		r.fail("paths", err, "")
	}
}

// checkDockerConfig reads the node's docker config files. A kubelet passes
// over what it cannot use, so a pull need not fail for want of it.
func (r *doctorReport) checkDockerConfig(ctx context.Context, o *origin) {
	sets, err := o.dockerConfig().Auths(ctx, "registry.example")
	for _, e := range terminal.Flatten(err) {
		fix := "mend or remove it"
		if errors.Is(e, fs.ErrPermission) {
			fix = "run it as root (sudo)"
		}
		r.add("docker-config", doctorWarn, fix, "%v; a kubelet passes over it without a word", e)
	}
	for _, s := range sets {
		r.add("docker-config", doctorOK, "", "%s: logins for %d registries", s.Source.File, len(s.Auths))
	}
	if len(sets) == 0 && err == nil {
		r.add("docker-config", doctorOK, "", "the node has no docker config file")
	}
}

// writeDoctor prints the report; the exit code says whether anything failed.
func (a *app) writeDoctor(out io.Writer, d *doctorFlags, r *doctorReport) error {
	counts := map[string]int{}
	for _, c := range r.Checks {
		counts[c.Result]++
	}
	r.Healthy = counts[doctorFail] == 0
	var err error
	if d.output.value == "json" {
		err = terminal.WriteJSON(out, r)
	} else {
		err = a.renderDoctor(r, counts).Print(out)
	}
	if err != nil || r.Healthy {
		return err
	}
	return exit(exitFailed)
}

func (a *app) renderDoctor(r *doctorReport, counts map[string]int) *terminal.Text {
	t := a.Text()
	marks := map[string]terminal.Mark{doctorOK: terminal.OK, doctorSkip: terminal.Skip, doctorWarn: terminal.Warn, doctorFail: terminal.Fail}
	for _, c := range r.Checks {
		t.Line(marks[c.Result], c.Check+": "+c.Message)
		if c.Fix != "" {
			t.Below("fix: " + c.Fix)
		}
	}
	t.Blank()
	sum := fmt.Sprintf("%s: %d ok, %d skipped, %s, %d failed", terminal.Count(len(r.Checks), "check"), counts[doctorOK], counts[doctorSkip], terminal.Count(counts[doctorWarn], "warning"), counts[doctorFail])
	switch {
	case !r.Healthy:
		t.Line(terminal.Fail, sum)
	case counts[doctorWarn] > 0:
		t.Line(terminal.Warn, sum)
	default:
		t.Line(terminal.OK, sum)
	}
	return t
}
