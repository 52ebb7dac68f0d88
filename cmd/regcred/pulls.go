// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/pull"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
)

// pullsFlags holds the flags shared by "pull" and "prepull".
type pullsFlags struct {
	*lookupFlags
	timeout  time.Duration // for each image; 0 = none
	parallel int
	output   *choice
}

// defaultPullTimeout is long enough for a large image on a slow network.
const defaultPullTimeout = 30 * time.Minute

func addPullsFlags(cmd *cobra.Command) *pullsFlags {
	f := &pullsFlags{parallel: 1}
	cmd.Flags().DurationVar(&f.timeout, "timeout", defaultPullTimeout, "maximum `time` for each image, including the credential lookup; 0 means no limit")
	f.output = addOutputFlag(cmd, "text", "json")
	f.lookupFlags = addLookupFlags(cmd)
	return f
}

// check rejects invalid values.
func (f *pullsFlags) check() error {
	if f.timeout < 0 {
		return usageError("", "--timeout is %v; it must not be negative", f.timeout)
	}
	if f.parallel < 1 {
		return usageError("", "--parallel is %d; it must be 1 or more", f.parallel)
	}
	return nil
}

// lookup returns the credentials for the image.
type lookup func(context.Context) ([]regcred.Credential, error)

// pulls is a run of "pull" or "prepull".
type pulls struct {
	a    *app
	f    *pullsFlags
	s    *session // shared by all images, so that a cached response serves many
	bars *terminal.Images

	// into pulls one image to its destination and fills in the report, even if it returns
	// an error.
	into func(ctx context.Context, creds lookup, r *imageReport) error

	gone atomic.Bool // the destination is unavailable; skip the remaining images

	mu   sync.Mutex      // guards said and the output
	said map[string]bool // warnings that have been printed
}

// newPulls returns a run without progress bars.
func newPulls(a *app, f *pullsFlags, s *session) *pulls {
	return &pulls{a: a, f: f, s: s, bars: &terminal.Images{}, said: map[string]bool{}}
}

// checkImages rejects the whole list if one image is invalid, before anything is
// pulled.
func (a *app) checkImages(s *session, images []string) error {
	var errs []error
	for _, image := range images {
		_, err := a.explainTarget(s.cfg, target{image: image})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// run pulls the images concurrently, up to a limit, and prints each result when it is
// available.
func (p *pulls) run(ctx context.Context, report *pullReport, images []string) error {
	report.Images, report.Counts = make([]imageReport, len(images)), map[string]int{}
	var g errgroup.Group
	g.SetLimit(p.f.parallel)
	for i, image := range images {
		g.Go(func() error {
			report.Images[i] = p.pull(ctx, image)
			return p.tell(&report.Images[i])
		})
	}
	err := g.Wait() // only write errors
	p.bars.Close()
	if err != nil {
		return err
	}
	for _, r := range report.Images {
		report.Counts[r.Outcome]++
	}
	return errors.Join(p.a.print(p.f.output, report, report.render), p.verdict(report))
}

// pull pulls one image. If the run was interrupted, it does not start.
func (p *pulls) pull(ctx context.Context, image string) imageReport {
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
		pullCtx, cancel = context.WithTimeoutCause(ctx, t, fmt.Errorf("the pull did not finish within --timeout %s: %w", terminal.Span(t), context.DeadlineExceeded))
		defer cancel()
	}
	var attempts []regcred.Attempt
	err := p.into(pullCtx, func(ctx context.Context) (creds []regcred.Credential, err error) {
		creds, attempts, err = p.lookup(ctx, image)
		return creds, err
	}, &r)
	r.Warnings = warningsOf(attempts)
	r.DurationSeconds = report.Seconds(time.Since(began))
	if err == nil {
		return r
	}
	r.failed(pullCtx, err, attempts)
	if ctx.Err() != nil {
		r.Outcome = outcomeCanceled
	}
	if errors.Is(err, pull.ErrRuntimeGone) {
		p.gone.Store(true)
	}
	return r
}

// lookup returns the credentials for an image.
func (p *pulls) lookup(ctx context.Context, image string) ([]regcred.Credential, []regcred.Attempt, error) {
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
	attempts := res.Attempts
	if p.s.exits != nil {
		attempts = append(slices.Clone(attempts), regcred.Attempt{Err: p.s.exits})
	}
	p.warn(attempts)
	p.noteNode(ctx, res)
	return res.Credentials, res.Attempts, nil
}

// warn prints failed attempts if another one succeeded, once for all images.
func (p *pulls) warn(attempts []regcred.Attempt) {
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

// noteNode prints findings about the node's docker config, each once.
func (p *pulls) noteNode(ctx context.Context, res *regcred.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	above := *p.a
	above.Stderr = p.bars.Above(p.a.Stderr)
	p.s.noteNode(ctx, &above, res)
}

// tell prints the result for an image.
func (p *pulls) tell(r *imageReport) error {
	if p.f.output.value == "json" || r.Outcome == outcomeNotBegun {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.a.Text()
	r.render(t)
	return t.Print(p.bars.Above(p.a.Stdout))
}

// verdict returns an error if an image failed.
func (p *pulls) verdict(r *pullReport) error {
	if r.bad() == 0 {
		return nil
	}
	err := fmt.Errorf("%d of %s not pulled", r.bad(), terminal.Count(len(r.Images), "image"))
	for _, image := range r.Images {
		if image.Outcome == report.Failed && r.Policy != string(pull.PullNever) { // the policy Never looks up no credentials
			return withHint(err, image.hint(p.a.again("explain", append(p.f.arguments(), terminal.ShellWord(image.Image))...)))
		}
	}
	return err
}
