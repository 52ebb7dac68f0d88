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
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/pull"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
)

// commonPullFlags holds the flags shared by "pull" and "prepull".
type commonPullFlags struct {
	*lookupFlags
	timeout  time.Duration // per image; 0 = none
	parallel int
	output   *enumFlag
}

// defaultPullTimeout allows for a large image on a slow network.
const defaultPullTimeout = 30 * time.Minute

func addCommonPullFlags(cmd *cobra.Command) *commonPullFlags {
	f := &commonPullFlags{parallel: 1}
	cmd.Flags().DurationVar(&f.timeout, "timeout", defaultPullTimeout, "maximum `time` for each image, including the credential lookup; 0 means no limit")
	f.output = addOutputFlag(cmd, "text", "json")
	f.lookupFlags = addLookupFlags(cmd)
	return f
}

// check rejects invalid values.
func (f *commonPullFlags) check() error {
	switch {
	case f.timeout < 0:
		return usageError("", "--timeout is %v; it must not be negative", f.timeout)
	case f.parallel < 1:
		return usageError("", "--parallel is %d; it must be 1 or more", f.parallel)
	}
	return nil
}

// lookupFunc looks up the credentials for one image.
type lookupFunc func(context.Context) ([]regcred.Credential, error)

// pullRun is a run of "pull" or "prepull".
type pullRun struct {
	app     *app
	flags   *commonPullFlags
	session *lookupSession // shared, so that a cached response can serve several images
	bars    *terminal.ImageProgress

	// pullInto pulls one image to its destination and fills in the report, even if it returns
	// an error.
	pullInto func(ctx context.Context, creds lookupFunc, r *imageReport) error

	targetUnavailable atomic.Bool // the destination is unavailable; skip the remaining images

	mu              sync.Mutex      // guards printedWarnings and the output
	printedWarnings map[string]bool // warnings that have been printed
}

// newPullRun returns a run without progress bars.
func newPullRun(a *app, f *commonPullFlags, s *lookupSession) *pullRun {
	return &pullRun{app: a, flags: f, session: s, bars: &terminal.ImageProgress{}, printedWarnings: map[string]bool{}}
}

// checkImages returns an error if one of the images is invalid. It is called before anything is
// pulled.
func (a *app) checkImages(s *lookupSession, images []string) error {
	var errs []error
	for _, image := range images {
		_, err := a.explainImage(s.cfg, image)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// pullAll pulls the images concurrently, up to a limit, and prints each result as soon
// as it is available.
func (p *pullRun) pullAll(ctx context.Context, report *pullReport, images []string) error {
	report.Images, report.Counts = make([]imageReport, len(images)), map[string]int{}
	var g errgroup.Group
	g.SetLimit(p.flags.parallel)
	for i, image := range images {
		g.Go(func() error {
			report.Images[i] = p.pullImage(ctx, image)
			return p.printResult(&report.Images[i])
		})
	}
	err := g.Wait() // only errors in writing the output; pull errors are in the report
	p.bars.Close()
	if err != nil {
		return err
	}
	for _, r := range report.Images {
		report.Counts[r.Outcome]++
	}
	return errors.Join(p.app.printResult(p.flags.output, report, report.render), p.resultError(ctx, report))
}

// pullImage pulls one image. It does nothing if the run was interrupted or the runtime is
// unavailable.
func (p *pullRun) pullImage(ctx context.Context, image string) imageReport {
	r := imageReport{Image: image, Failed: []tryReport{}}
	if ctx.Err() != nil || p.targetUnavailable.Load() {
		r.Outcome = outcomeNotStarted
		return r
	}
	defer p.bars.Show(image)()
	began := time.Now()
	pullCtx := ctx
	if t := p.flags.timeout; t > 0 {
		var cancel context.CancelFunc
		pullCtx, cancel = context.WithTimeoutCause(ctx, t, fmt.Errorf("the pull did not finish within --timeout %s: %w", terminal.FormatDuration(t), context.DeadlineExceeded))
		defer cancel()
	}
	var attempts []regcred.Attempt
	err := p.pullInto(pullCtx, func(ctx context.Context) (creds []regcred.Credential, err error) {
		creds, attempts, err = p.lookupCredentials(ctx, image)
		return creds, err
	}, &r)
	for _, at := range failedAttempts(attempts) {
		r.Warnings = append(r.Warnings, warningReport{at.Provider, at.Stage, report.NewAttempt(at).Error})
	}
	r.DurationSeconds = report.Seconds(time.Since(began))
	if err == nil {
		return r
	}
	r.setError(pullCtx, err, attempts)
	if ctx.Err() != nil {
		r.Outcome = outcomeCanceled
	}
	if errors.Is(err, pull.ErrRuntimeGone) {
		p.targetUnavailable.Store(true)
	}
	return r
}

// lookupCredentials returns the credentials for an image.
func (p *pullRun) lookupCredentials(ctx context.Context, image string) ([]regcred.Credential, []regcred.Attempt, error) {
	res, failed, err := p.session.lookupTarget(ctx, regcred.Request{Image: image})
	if cause := context.Cause(ctx); cause != nil && (err != nil || failed) {
		err = fmt.Errorf("looking up credentials: %w", cause)
	}
	if err != nil {
		return nil, nil, err
	}
	if failed {
		return nil, res.Attempts, errors.New("not pulled, " + pullFailureText(res.Attempts))
	}
	attempts := res.Attempts
	if p.session.kubeletExitError != nil {
		attempts = append(slices.Clone(attempts), regcred.Attempt{Err: p.session.kubeletExitError})
	}
	p.printLookupNotes(ctx, res, attempts)
	return res.Credentials, res.Attempts, nil
}

// printLookupNotes prints the failed attempts of a lookup that succeeded, and the
// findings about the node's docker config. It prints each text once for all images.
func (p *pullRun) printLookupNotes(ctx context.Context, res *regcred.Result, attempts []regcred.Attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var fresh []regcred.Attempt
	for _, at := range attempts {
		key := fmt.Sprint(at.Provider, at.Err, at.Stderr)
		if !p.printedWarnings[key] {
			p.printedWarnings[key] = true
			fresh = append(fresh, at)
		}
	}
	above := *p.app
	above.Stderr = p.bars.WriterAbove(p.app.Stderr)
	above.warnFailedAttempts(fresh)
	p.session.printNodeFindings(ctx, &above, res)
}

// printResult prints the result for an image.
func (p *pullRun) printResult(r *imageReport) error {
	if p.flags.output.value == "json" || r.Outcome == outcomeNotStarted {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.app.NewText()
	r.render(t)
	return t.FlushTo(p.bars.WriterAbove(p.app.Stdout))
}

// resultError returns an error if an image failed.
func (p *pullRun) resultError(ctx context.Context, r *pullReport) error {
	if r.countFailed() == 0 {
		return nil
	}
	err := fmt.Errorf("%d of %s not pulled", r.countFailed(), terminal.FormatCount(len(r.Images), "image"))
	for _, image := range r.Images {
		if image.Outcome == report.OutcomeFailed && r.Policy != string(pull.PullNever) { // with the policy Never, no credentials are looked up
			own := ""
			if len(image.Failed) > 0 && image.Failed[0].Credential == nil {
				own = p.ownCredentials(ctx, image.Image, r.Runtime != nil)
			}
			return withHint(err, own+image.failureHint(p.app.repeatCommandLine("explain", append(p.flags.subjectArgs(), terminal.QuoteShellWord(image.Image))...)))
		}
	}
	return err
}

// ownCredentials describes the runtime's own credentials for an image, as the start of a hint.
func (p *pullRun) ownCredentials(ctx context.Context, image string, intoRuntime bool) string {
	way := doctor.FindRuntime(ctx, p.app.localNode().NewReader(), p.session.origin).ConfiguredRoute(image)
	switch {
	case way == nil || !way.UsesOwnCredential():
		return ""
	case intoRuntime:
		return fmt.Sprintf("%s sent its own credential for %s; ", way.Runtime, way.OwnCredentials())
	}
	return fmt.Sprintf("%s has its own credential for %s, which regcred pull does not use; ", way.Runtime, way.OwnCredentials())
}
