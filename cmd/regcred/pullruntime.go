// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/pull"
	"github.com/regcred/regcred/internal/terminal"
)

// runtimeFlags say into which container runtime images are pulled, and how.
type runtimeFlags struct {
	*lookupFlags
	endpoint     string
	policy       *choice
	allowAllPods bool
	parallel     int
	timeout      time.Duration // of one image; 0 = none
	format       *choice
}

// register adds the flags that "pull" and "prepull" share; the first
// policy is the default.
func (r *runtimeFlags) register(cmd *cobra.Command, policies ...pull.Policy) {
	r.policy = &choice{}
	for _, p := range policies {
		r.policy.values = append(r.policy.values, string(p))
	}
	r.policy.value = r.policy.values[0]
	f := cmd.Flags()
	f.StringVar(&r.endpoint, "runtime-endpoint", r.endpoint,
		"`socket` of the container runtime to pull into, unix:///path; \"auto\" takes that of the kubelet in --as-kubelet, or the one that is in a usual place")
	r.policy.register(cmd, "pull-policy", "", "`policy` of when to pull into the runtime, as a container's imagePullPolicy: "+strings.Join(r.policy.values, " | "))
	f.DurationVar(&r.timeout, "timeout", 30*time.Minute, "the longest `time` that one image may take to get into the runtime; 0 for none")
	f.BoolVar(&r.allowAllPods, "allow-all-pods", false,
		"use credentials of a pod for a runtime (--pod, --service-account, --pull-secret, --service-account-token-file) all the same: "+
			"the kubelet knows nothing of such a pull, and so every pod of this node may use the image, without any credential (KEP-2535)")
}

// check refuses flags that do not go together.
func (r *runtimeFlags) check() error {
	if r.timeout < 0 {
		return usageError("", "--timeout is %v; it must not be negative", r.timeout)
	}
	if r.parallel < 1 {
		return usageError("", "--parallel is %d; it must be 1 or more", r.parallel)
	}
	if r.endpoint != node.AutoEndpoint {
		if _, err := pull.SocketPath(r.endpoint); err != nil {
			return usageError("", "%w", err)
		}
	}
	if given := r.podFlags(); len(given) > 0 && !r.allowAllPods {
		return usageError("pull with the node's own credentials, or give --allow-all-pods if every pod of this node may have the image",
			"%s: an image that is pulled into the runtime with a pod's credentials would be open to every pod of this node", strings.Join(given, " "))
	}
	return nil
}

// runtimePulls is a run of "pull" or "prepull" into a runtime.
type runtimePulls struct {
	a       *app
	f       *runtimeFlags
	s       *session // one for all images, so that one run of a plugin can serve many
	runtime *pull.Runtime
	gone    atomic.Bool // the runtime, and the rest need not be tried
	bars    *terminal.Images

	mu   sync.Mutex      // guards what follows, and what is written
	said map[string]bool // about failed providers
}

// pullIntoRuntime pulls images, each once, and prints what became of them.
func (a *app) pullIntoRuntime(ctx context.Context, f *runtimeFlags, images []string) error {
	if err := f.check(); err != nil {
		return err
	}
	s, err := a.openKeyring(ctx, f.lookupFlags)
	if err != nil {
		return err
	}
	defer s.Close()
	for _, image := range images {
		if _, err := a.explainTarget(s.cfg, target{image: image}); err != nil {
			return err
		}
	}
	endpoint, err := a.node().RuntimeEndpoint(f.endpoint, s.origin)
	if err != nil {
		return err
	}
	runtime, err := pull.DialRuntime(ctx, endpoint, pull.RuntimeOptions{Refused: s.Invalidate})
	if err != nil {
		return cmp.Or(node.Denied(err), err)
	}
	defer runtime.Close()
	if f.endpoint == node.AutoEndpoint {
		a.Note("pulling into %s at %s", runtime, endpoint)
	}
	p := &runtimePulls{a: a, f: f, s: s, runtime: runtime, said: map[string]bool{}}
	return p.run(ctx, endpoint, images)
}

// run pulls the images, so many at a time.
func (p *runtimePulls) run(ctx context.Context, endpoint string, images []string) error {
	p.bars = p.a.Images(ctx, len(images))
	report := &runtimeReport{
		Runtime: runtimeJSON{endpoint, p.runtime.Name, p.runtime.Version},
		Policy:  p.f.policy.value, Images: make([]imageReport, len(images)), Counts: map[string]int{},
	}
	var g errgroup.Group
	g.SetLimit(p.f.parallel)
	for i, image := range images {
		g.Go(func() error {
			report.Images[i] = p.pull(ctx, image)
			return p.tell(&report.Images[i])
		})
	}
	err := g.Wait() // only of writing
	p.bars.Close()
	if err != nil {
		return err
	}
	for _, r := range report.Images {
		report.Counts[r.Outcome]++
	}
	return errors.Join(p.a.print(p.f.format, report, report.render), p.verdict(report))
}

// pull pulls one image, unless it is too late to begin.
func (p *runtimePulls) pull(ctx context.Context, image string) imageReport {
	r := imageReport{Image: image, Failed: []tryJSON{}}
	if ctx.Err() != nil || p.gone.Load() {
		r.Outcome = outcomeNotBegun
		return r
	}
	defer p.bars.Begin(image)()
	began := time.Now()
	pullCtx := ctx
	if t := p.f.timeout; t > 0 {
		var cancel context.CancelFunc
		pullCtx, cancel = context.WithTimeoutCause(ctx, t, fmt.Errorf("not done within --timeout %s: %w", terminal.Span(t), context.DeadlineExceeded))
		defer cancel()
	}
	var attempts []regcred.Attempt
	got, err := p.runtime.Pull(pullCtx, image, pull.Policy(p.f.policy.value), func(ctx context.Context) (creds []regcred.Credential, err error) {
		creds, attempts, err = p.lookup(ctx, image)
		return creds, err
	})
	r.Warnings = warningsOf(attempts)
	r.DurationSeconds = seconds(time.Since(began))
	if err == nil {
		r.succeeded(got)
		return r
	}
	r.failed(err, attempts)
	if ctx.Err() != nil {
		r.Outcome = outcomeCanceled
	}
	if errors.Is(err, pull.ErrRuntimeGone) {
		p.gone.Store(true)
	}
	return r
}

// lookup gets the credentials of an image.
func (p *runtimePulls) lookup(ctx context.Context, image string) ([]regcred.Credential, []regcred.Attempt, error) {
	res, failed, err := p.s.lookup(ctx, target{image: image})
	if cause := context.Cause(ctx); cause != nil && (err != nil || failed) {
		err = fmt.Errorf("looking up credentials: %w", cause)
	}
	if err != nil {
		return nil, nil, err
	}
	if failed {
		return nil, res.Attempts, errors.New("not pulled, " + whyNotPulled(res.Attempts))
	}
	p.warn(res.Attempts)
	return res.Credentials, res.Attempts, nil
}

// warn tells what failed beside something that answered, once and not for
// each image.
func (p *runtimePulls) warn(attempts []regcred.Attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var fresh []regcred.Attempt
	for _, at := range attempts {
		key := fmt.Sprint(at.Provider, at.Err, at.Stderr)
		if !p.said[key] {
			p.said[key] = true
			fresh = append(fresh, at)
		}
	}
	above := *p.a
	above.Stderr = p.bars.Above(p.a.Stderr)
	above.warnFailed(fresh)
}

// tell prints the line of an image as soon as it is known.
func (p *runtimePulls) tell(r *imageReport) error {
	if p.f.format.value == "json" || r.Outcome == outcomeNotBegun {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.a.Text()
	r.render(t)
	return t.Print(p.bars.Above(p.a.Stdout))
}

// verdict is the error of a run in which an image failed.
func (p *runtimePulls) verdict(r *runtimeReport) error {
	if r.bad() == 0 {
		return nil
	}
	err := fmt.Errorf("%d of %s not pulled", r.bad(), terminal.Count(len(r.Images), "image"))
	for _, image := range r.Images {
		if image.Outcome == outcomeFailed && p.f.policy.value != string(pull.PullNever) { // which looks nothing up
			return withHint(err, fmt.Sprintf("run %q to see where its credentials come from", p.a.explainCommand(p.f.arguments()+image.Image)))
		}
	}
	return err
}
