// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package doctor checks everything that an image pull on a node depends on: files, the
// kubelet, the container runtime, the cluster and the registry. [Checks] lists the
// checks, and [Run] returns their findings. Nothing is changed. Plugins are run only
// for an [Image].
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
	Without *node.NoProviders // set by the check "config" if the node has no configuration
}

// jsonFinding holds the fields of a Finding in JSON.
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

// MarshalJSON returns an object with the field check. It renames a finding's suggestion
// to fix.
func (f Finding) MarshalJSON() ([]byte, error) {
	return json.Marshal(jsonFinding{f.Check, f.Rule, f.Severity, f.Host, f.File, f.Line, f.Column, f.Path, f.Message, f.Fix, f.Log, f.Without})
}

// UnmarshalJSON decodes the output of MarshalJSON.
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
	Findings   []Finding    `json:"checks"`  // in the order in which a pull depends on them
	Image      *ImageResult `json:"image,omitempty"`
	Suppressed int          `json:"suppressed,omitempty"` // number of lint findings that comments suppress
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
	Reference   string              `json:"reference"` // includes host and tag
	Credentials []report.Credential `json:"credentials"`
	Route       *route.Route        `json:"route,omitempty"`
	Hosts       []*probe.Result     `json:"hosts"`                // hosts that were contacted, in order
	Pulls       bool                `json:"pulls"`                // whether a pull would succeed
	From        string              `json:"from,omitempty"`       // host that the pull would use
	Credential  *report.Credential  `json:"credential,omitempty"` // credential that From accepted; nil if anonymous
}

// checkResults collects the findings of one check.
type checkResults struct {
	check           string
	list            []Finding
	earlierFindings []Finding     // findings of earlier checks
	rules           report.Filter // selects lint findings
	suppressed      int           // number of lint findings that comments suppress
}

func (r *checkResults) add(severity finding.Severity, fix, format string, args ...any) {
	r.addFinding(finding.Finding{Severity: severity, Message: fmt.Sprintf(format, args...), Fix: fix})
}

func (r *checkResults) addFinding(f finding.Finding) {
	r.list = append(r.list, Finding{Check: r.check, Finding: f})
}

// filterFindings returns the lint findings that the rules select and cfg's comments do not
// suppress.
func (r *checkResults) filterFindings(cfg *config.Config, list []finding.Finding) []finding.Finding {
	kept, suppressed := r.rules.Apply(list, report.TextOf(cfg))
	r.suppressed += suppressed
	return kept
}

// addStep adds a finding of a step of the check.
func (r *checkResults) addStep(step string, severity finding.Severity, fix, format string, args ...any) {
	r.add(severity, fix, format, args...)
	r.list[len(r.list)-1].Check = step
}

// addErrors adds an error for each of the joined errors, with the position of a
// [config.FieldError]. An empty fix is replaced by the hint of a [node.HintError].
func (r *checkResults) addErrors(err error, fix string) {
	if e, ok := errors.AsType[*node.HintError](err); ok && fix == "" {
		fix = e.Hint
	}
	for _, e := range terminal.Flatten(err) {
		f := finding.Finding{Severity: finding.SeverityError, Message: e.Error(), Fix: fix}
		if at, ok := e.(*config.FieldError); ok {
			text := config.FieldError{Msg: at.Msg, Value: at.Value}
			f.File, f.Line, f.Column, f.Path, f.Message = at.File, at.Line, at.Column, at.Path, text.Error()
		}
		r.addFinding(f)
	}
}

// checkSpec is a row of the table of checks.
type checkSpec struct {
	name     string // used for --only and in findings
	isRemote bool   // contacts a server
	// precondition returns an error if the check cannot run, or a [notApplicable] if it
	// does not apply.
	precondition func(context.Context, *Input) error
	runCheck     func(context.Context, *Input, *checkResults)
}

// notApplicable is the reason why a check does not apply.
type notApplicable string

func (n notApplicable) Error() string { return string(n) }

// Checks returns the names of all checks in the order in which they run.
func Checks() (names []string) {
	for _, c := range checkTable() {
		names = append(names, c.name)
	}
	return names
}

// checkTable is the table of all checks.
func checkTable() []checkSpec {
	return []checkSpec{
		{"config", false, alwaysApplies, checkConfig},
		{"lint", false, requireConfig, checkLint},
		{"executables", false, requireOrigin, checkExecutables},
		{"paths", false, requireOrigin, checkPaths},
		{"mirror-origin", false, requireConfig, checkMirrorOrigin},
		{"docker-config", false, requireDockerPaths, checkDockerConfig},
		{"units", false, alwaysApplies, checkUnits},
		{"kubelet", false, requireNode, checkKubelet},
		{"mirrors", false, alwaysApplies, checkMirrors},
		{"installed", false, requireGenerations, checkInstalled},
		{"counts", false, requireGenerations, checkCounts},

		{"api-server", true, requireCluster, checkAPIServer},
		{"identity", true, requireIdentity, checkIdentity},
		{"clock", true, requireIdentity, checkClock},
		{"pod", true, requirePodName, checkPod},
		{"pull-secrets", true, requirePod, checkPullSecrets},
		{"service-account", true, requirePod, checkServiceAccount},
		{"permission", true, requireIdentityAndPod, checkPermissions},
		{"token", true, requireIdentityAndPod, checkTokens},

		{"image", true, requireImage, checkImage},
	}
}

// runIfApplicable runs the check. If the check does not run, it reports the reason only
// if the check was named.
func (c checkSpec) runIfApplicable(ctx context.Context, w *Input, r *checkResults, named bool) {
	err := c.precondition(ctx, w)
	_, skipped := errors.AsType[notApplicable](err)
	switch {
	case err == nil:
		c.runCheck(ctx, w, r)
	case !named:
	case skipped:
		r.add(finding.SeveritySkipped, "", "%v", err)
	default:
		r.addErrors(err, "")
	}
}

func alwaysApplies(context.Context, *Input) error { return nil }

func requireOrigin(_ context.Context, w *Input) error {
	switch {
	case w.OriginErr != nil:
		return w.OriginErr
	case w.Origin == nil || w.Origin.NoProviders != nil:
		return notApplicable("no configuration was found")
	}
	return nil
}

func requireConfig(ctx context.Context, w *Input) error {
	if err := requireOrigin(ctx, w); err != nil {
		return err
	}
	return w.configErr
}

func requireDockerPaths(_ context.Context, w *Input) error {
	if w.dockerConfigOrigin() == nil {
		return notApplicable("the directories of docker config files are unknown")
	}
	return nil
}

func requireNode(_ context.Context, w *Input) error {
	if w.Setup == nil {
		return notApplicable("this system does not run a kubelet")
	}
	return nil
}

func requireGenerations(ctx context.Context, w *Input) error {
	if store := w.generationStore(); w.Setup == nil || !store.FS.Exists(store.Dir) {
		return notApplicable("regcred install has not changed this node")
	}
	return nil
}

func requireCluster(_ context.Context, w *Input) error {
	if w.Cluster == nil {
		return notApplicable("requires --kube, --pod, --kubeconfig or --context")
	}
	return nil
}

func requireIdentity(ctx context.Context, w *Input) error {
	if err := requireCluster(ctx, w); err != nil {
		return err
	}
	if w.Cluster.Skipped != "" {
		return notApplicable(w.Cluster.Skipped)
	}
	return w.Cluster.fetchIdentity(ctx)
}

func requirePodName(ctx context.Context, w *Input) error {
	err := requireIdentity(ctx, w)
	if err == nil && w.Cluster.PodName == "" {
		return notApplicable("requires --pod")
	}
	return err
}

func requirePod(ctx context.Context, w *Input) error {
	if err := requirePodName(ctx, w); err != nil {
		return err
	}
	return w.Cluster.readPod(ctx)
}

// requireIdentityAndPod requires a readable pod, but only if a pod is named.
func requireIdentityAndPod(ctx context.Context, w *Input) error {
	err := requirePod(ctx, w)
	if _, skipped := errors.AsType[notApplicable](err); skipped {
		return requireIdentity(ctx, w)
	}
	return err
}

func requireImage(_ context.Context, w *Input) error {
	if w.Image == nil {
		return notApplicable("requires --image")
	}
	return nil
}

// Run runs the checks with the given names, or all checks. Checks that do not apply are
// omitted unless they are named. It returns an error if ctx ends during the checks of
// the node.
func Run(ctx context.Context, w *Input, only ...string) (*Report, error) {
	w.loadConfig(ctx)
	report := &Report{Findings: []Finding{}}
	for _, c := range checkTable() {
		if len(only) > 0 && !slices.Contains(only, c.name) {
			continue
		}
		if ctx.Err() != nil && !c.isRemote {
			return nil, context.Cause(ctx)
		}
		r := &checkResults{check: c.name, earlierFindings: report.Findings, rules: w.Rules}
		c.runIfApplicable(ctx, w, r, len(only) > 0)
		report.Findings = append(report.Findings, r.list...)
		report.Suppressed += r.suppressed
	}
	if w.Image != nil {
		report.Image = w.Image.result
	}
	report.Healthy = report.Count()[finding.SeverityError] == 0 && ctx.Err() == nil
	return report, nil
}
