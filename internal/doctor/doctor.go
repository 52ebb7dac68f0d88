// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package doctor checks everything that an image pull on a node depends on: files, the
// kubelet, the container runtime, the cluster and the registry. [Checks] lists the
// checks, and [Run] returns their findings. Nothing is changed. Plugins are run only
// for an [Image].
package doctor

import (
	"context"
	"errors"
	"slices"

	"github.com/regcred/regcred/finding"
)

// Report is the result of [Run].
type Report struct {
	Healthy    bool         `json:"healthy"` // no finding is an error
	Findings   []Finding    `json:"checks"`  // in the order of [Checks]
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

// checkSpec describes a check.
type checkSpec struct {
	name     string // used for --only and in findings
	isRemote bool   // contacts a server
	// precondition returns nil if the check can run. It returns a [notApplicable] error if
	// there is nothing to check, and another error if the check cannot run.
	precondition func(context.Context, *Input) error
	runCheck     func(context.Context, *Input, *checkResults)
}

// notApplicable is the error for a check that has nothing to check on this node. Its text is
// the reason.
type notApplicable string

func (n notApplicable) Error() string { return string(n) }

// Checks returns the names of all checks in the order in which they run.
func Checks() (names []string) {
	for _, c := range checkTable() {
		names = append(names, c.name)
	}
	return names
}

// checkTable returns all checks in the order in which they run.
func checkTable() []checkSpec {
	requireDockerPaths := appliesIf("the directories of docker config files are unknown", func(w *Input) bool { return w.dockerConfigOrigin() != nil })
	requireNode := appliesIf("this system does not run a kubelet", func(w *Input) bool { return w.Setup != nil })
	requireGenerations := appliesIf("regcred install has not changed this node", func(w *Input) bool {
		store := w.generationStore()
		return w.Setup != nil && store.FS.Exists(store.Dir)
	})
	requireImage := appliesIf("requires --image", func(w *Input) bool { return w.Image != nil })
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
		{"counts", false, requireGenerations, checkProviderFailures},

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

// runIfApplicable runs the check if its precondition is met. Otherwise it reports the reason,
// but only if the user selected the check by name.
func (c checkSpec) runIfApplicable(ctx context.Context, w *Input, r *checkResults, named bool) {
	err := c.precondition(ctx, w)
	_, skipped := errors.AsType[notApplicable](err)
	switch {
	case err == nil:
		c.runCheck(ctx, w, r)
	case !named:
	case skipped:
		r.addResult(finding.SeveritySkipped, "", "%v", err)
	default:
		r.addErrors(err, "")
	}
}

func alwaysApplies(context.Context, *Input) error { return nil }

// appliesIf returns a precondition that fails with the given reason unless the condition is
// true.
func appliesIf(reason string, condition func(*Input) bool) func(context.Context, *Input) error {
	return func(_ context.Context, w *Input) error {
		if !condition(w) {
			return notApplicable(reason)
		}
		return nil
	}
}

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

// requireIdentityAndPod requires the client's identity. If the user specified a pod, it also
// requires that the pod can be read.
func requireIdentityAndPod(ctx context.Context, w *Input) error {
	err := requirePod(ctx, w)
	if _, skipped := errors.AsType[notApplicable](err); skipped {
		return requireIdentity(ctx, w)
	}
	return err
}

// Run runs the checks with the given names, or all checks if there are none. It omits checks
// that have nothing to check unless they are given by name. It returns an error if ctx ends
// before all local checks have run.
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
