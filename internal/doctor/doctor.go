// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package doctor checks everything that an image pull on a node depends on: files,
// the kubelet, the container runtime, the cluster and the registry. [Checks] lists
// the checks, and [Run] returns their findings. Nothing is changed, and plugins are
// run only for an [Image].
package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/probe"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/route"
	"github.com/regcred/regcred/internal/terminal"
)

// Finding is one result of a check.
type Finding struct {
	Check string // name of the check, or of a step of the check "image"
	finding.Finding
	Log     []string          // lines of the kubelet's log that show the cause
	Without *node.NoProviders // set by "config" if the node has no configuration
}

// jsonFinding has the fields of a Finding in JSON.
type jsonFinding struct {
	Check    string            `json:"check"`
	Rule     string            `json:"rule,omitempty"`
	Severity finding.Severity  `json:"severity"`
	Host     string            `json:"host,omitempty"`
	File     string            `json:"file,omitempty"`
	Line     int               `json:"line,omitempty"`
	Column   int               `json:"column,omitempty"`
	Path     string            `json:"path,omitempty"`
	Message  string            `json:"message"`
	Fix      string            `json:"fix,omitempty"`
	Log      []string          `json:"log,omitempty"`
	Without  *node.NoProviders `json:"without,omitempty"`
}

// MarshalJSON returns an object with the field check, and fix for a finding's suggestion.
func (f Finding) MarshalJSON() ([]byte, error) {
	return json.Marshal(jsonFinding{f.Check, f.Rule, f.Severity, f.Host, f.File, f.Line, f.Column, f.Path, f.Message, f.Fix, f.Log, f.Without})
}

// UnmarshalJSON reads what MarshalJSON returns.
func (f *Finding) UnmarshalJSON(data []byte) error {
	var j jsonFinding
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*f = Finding{j.Check, finding.Finding{
		Rule: j.Rule, Severity: j.Severity, Host: j.Host, File: j.File, Line: j.Line, Column: j.Column, Path: j.Path, Message: j.Message, Fix: j.Fix,
	}, j.Log, j.Without}
	return nil
}

// Report is the result of [Run].
type Report struct {
	Healthy    bool         `json:"healthy"` // no finding is an error
	Findings   []Finding    `json:"checks"`  // in the order in which a pull depends on the checks
	Image      *ImageResult `json:"image,omitempty"`
	Suppressed int          `json:"suppressed,omitempty"` // lint findings that comments suppress
}

// Count returns the number of findings for each severity.
func (r *Report) Count() map[finding.Severity]int {
	counts := map[finding.Severity]int{}
	for _, f := range r.Findings {
		counts[f.Severity]++
	}
	return counts
}

// ImageResult is the result of the check "image".
type ImageResult struct {
	Reference   string              `json:"reference"` // with host and tag
	Credentials []report.Credential `json:"credentials"`
	Route       *route.Route        `json:"route,omitempty"`
	Hosts       []*probe.Result     `json:"hosts"`                // hosts that were contacted, in order
	Pulls       bool                `json:"pulls"`                // whether a pull would succeed
	From        string              `json:"from,omitempty"`       // host that the pull would use
	Credential  *report.Credential  `json:"credential,omitempty"` // accepted by From; nil if anonymous
}

// results collects the findings of one check.
type results struct {
	check      string
	list       []Finding
	earlier    []Finding     // of the checks before
	rules      report.Filter // selects lint findings
	suppressed int           // lint findings that comments suppress
}

func (r *results) add(severity finding.Severity, fix, format string, args ...any) {
	r.report(finding.Finding{Severity: severity, Message: fmt.Sprintf(format, args...), Fix: fix})
}

func (r *results) report(f finding.Finding) {
	r.list = append(r.list, Finding{Check: r.check, Finding: f})
}

// selected returns the lint findings that the rules select and cfg's comments do not
// suppress.
func (r *results) selected(cfg *config.Config, list []finding.Finding) []finding.Finding {
	kept, suppressed := r.rules.Apply(list, report.TextOf(cfg))
	r.suppressed += suppressed
	return kept
}

// addStep adds a finding of a step of the check.
func (r *results) addStep(step string, severity finding.Severity, fix, format string, args ...any) {
	r.add(severity, fix, format, args...)
	r.list[len(r.list)-1].Check = step
}

// fail adds an error for each of the joined errors, with the position of a
// [config.FieldError]. An empty fix is replaced by the hint of a [node.Error].
func (r *results) fail(err error, fix string) {
	if e, ok := errors.AsType[*node.Error](err); ok && fix == "" {
		fix = e.Hint
	}
	for _, e := range terminal.Flatten(err) {
		f := finding.Finding{Severity: finding.SeverityError, Message: e.Error(), Fix: fix}
		if at, ok := e.(*config.FieldError); ok {
			text := config.FieldError{Msg: at.Msg, Value: at.Value}
			f.File, f.Line, f.Column, f.Path, f.Message = at.File, at.Line, at.Column, at.Path, text.Error()
		}
		r.report(f)
	}
}

// check is a row of the table of checks.
type check struct {
	name   string // for --only, and in findings
	remote bool   // contacts a server
	// needs returns why the check does not apply ([notApplicable]), or the error that
	// keeps it from running.
	needs func(context.Context, *World) error
	run   func(context.Context, *World, *results)
}

// notApplicable is the reason why a check does not apply.
type notApplicable string

func (n notApplicable) Error() string { return string(n) }

// Checks returns the names of all checks in the order in which they run.
func Checks() (names []string) {
	for _, c := range checks() {
		names = append(names, c.name)
	}
	return names
}

// checks is the table of all checks.
func checks() []check {
	return []check{
		{"config", false, always, checkConfig},
		{"lint", false, needConfig, checkLint},
		{"executables", false, needOrigin, checkExecutables},
		{"paths", false, needOrigin, checkPaths},
		{"mirror-origin", false, needConfig, checkMirrorOrigin},
		{"docker-config", false, needDockerPaths, checkDockerConfig},
		{"units", false, always, checkUnits},
		{"kubelet", false, needNode, checkKubelet},
		{"mirrors", false, always, checkMirrors},
		{"installed", false, needGenerations, checkInstalled},
		{"counts", false, needGenerations, checkCounts},

		{"api-server", true, needCluster, checkAPIServer},
		{"identity", true, needIdentity, checkIdentity},
		{"clock", true, needIdentity, checkClock},
		{"pod", true, needPodName, checkPod},
		{"pull-secrets", true, needPod, checkPullSecrets},
		{"service-account", true, needPod, checkServiceAccount},
		{"permission", true, needIdentityAndPod, checkPermissions},
		{"token", true, needIdentityAndPod, checkTokens},

		{"image", true, needImage, checkImage},
	}
}

// examine runs the check. A check that does not run reports the reason only if it was named.
func (c check) examine(ctx context.Context, w *World, r *results, named bool) {
	err := c.needs(ctx, w)
	_, skipped := errors.AsType[notApplicable](err)
	switch {
	case err == nil:
		c.run(ctx, w, r)
	case !named:
	case skipped:
		r.add(finding.SeveritySkipped, "", "%v", err)
	default:
		r.fail(err, "")
	}
}

func always(context.Context, *World) error { return nil }

func needOrigin(_ context.Context, w *World) error {
	switch {
	case w.OriginErr != nil:
		return w.OriginErr
	case w.Origin == nil || w.Origin.NoProviders != nil:
		return notApplicable("no configuration was found")
	}
	return nil
}

func needConfig(ctx context.Context, w *World) error {
	if err := needOrigin(ctx, w); err != nil {
		return err
	}
	return w.configErr
}

func needDockerPaths(_ context.Context, w *World) error {
	if w.files() == nil {
		return notApplicable("the directories of docker config files are unknown")
	}
	return nil
}

func needNode(_ context.Context, w *World) error {
	if w.Setup == nil {
		return notApplicable("this system does not run a kubelet")
	}
	return nil
}

func needGenerations(ctx context.Context, w *World) error {
	if store := w.generations(); w.Setup == nil || !store.FS.Exists(store.Dir) {
		return notApplicable("regcred install has not changed this node")
	}
	return nil
}

func needCluster(_ context.Context, w *World) error {
	if w.Cluster == nil {
		return notApplicable("requires --kube, --pod, --kubeconfig or --context")
	}
	return nil
}

func needIdentity(ctx context.Context, w *World) error {
	if err := needCluster(ctx, w); err != nil {
		return err
	}
	if w.Cluster.Skipped != "" {
		return notApplicable(w.Cluster.Skipped)
	}
	return w.Cluster.identify(ctx)
}

func needPodName(ctx context.Context, w *World) error {
	err := needIdentity(ctx, w)
	if err == nil && w.Cluster.PodName == "" {
		return notApplicable("requires --pod")
	}
	return err
}

func needPod(ctx context.Context, w *World) error {
	if err := needPodName(ctx, w); err != nil {
		return err
	}
	return w.Cluster.readPod(ctx)
}

// needIdentityAndPod requires a readable pod only if one is named.
func needIdentityAndPod(ctx context.Context, w *World) error {
	err := needPod(ctx, w)
	if _, skipped := errors.AsType[notApplicable](err); skipped {
		return needIdentity(ctx, w)
	}
	return err
}

func needImage(_ context.Context, w *World) error {
	if w.Image == nil {
		return notApplicable("requires --image")
	}
	return nil
}

// Run runs the checks with the given names, or all checks. Checks that do not apply
// are left out unless they are named. It returns an error if ctx ends during the
// checks of the node.
func Run(ctx context.Context, w *World, only ...string) (*Report, error) {
	w.load(ctx)
	report := &Report{Findings: []Finding{}}
	for _, c := range checks() {
		if len(only) > 0 && !slices.Contains(only, c.name) {
			continue
		}
		if ctx.Err() != nil && !c.remote {
			return nil, context.Cause(ctx)
		}
		r := &results{check: c.name, earlier: report.Findings, rules: w.Rules}
		c.examine(ctx, w, r, len(only) > 0)
		report.Findings = append(report.Findings, r.list...)
		report.Suppressed += r.suppressed
	}
	if w.Image != nil {
		report.Image = w.Image.result
	}
	report.Healthy = report.Count()[finding.SeverityError] == 0 && ctx.Err() == nil
	return report, nil
}
