// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// invalidateInterval is what the rule says of one cache entry.
const invalidateInterval = time.Minute

// window is the time after a change in which pulls of one process fail.
type window struct {
	last      time.Duration // when the last of those began, after the change
	explained time.Duration // until when the rule explains it, without slack
	failures  int
	example   string
}

// windows are those of one process, one for each change.
func windows(changed []change, events []event) []window {
	list := make([]window, len(changed))
	for i, c := range changed {
		until := c.known // from then on an answer is right, if one is asked for
		for _, e := range events {
			if e.Kind == "invalidated" && !e.At.After(c.known) {
				if next := e.At.Add(invalidateInterval); next.After(until) {
					until = next
				}
			}
		}
		list[i].explained = until.Sub(c.at)
	}
	for _, e := range events {
		if e.Kind != "failed" {
			continue
		}
		// A pull during which the password changes may fail for that.
		i := len(changed) - 1
		for i > 0 && changed[i].at.After(e.End) {
			i--
		}
		w := &list[i]
		w.failures++
		if after := e.At.Sub(changed[i].at); after >= w.last {
			w.last, w.example = after, e.Error
		}
	}
	return list
}

// tooLong reports whether the rule does not explain it.
func (w window) tooLong(slack time.Duration) bool {
	return w.failures > 0 && w.last > max(w.explained, 0)+slack
}

// report prints what happened, and fails if something is not explained.
func (s *soak) report(workers []*worker, out io.Writer) error {
	var sum event
	var errs []error
	var longest, latest time.Duration
	invalidated := 0
	for n, w := range workers {
		if w.err != nil {
			errs = append(errs, fmt.Errorf("process %d: %w", n, w.err))
		}
		ended := false
		for _, e := range w.events {
			switch e.Kind {
			case "invalidated":
				invalidated++
			case "end":
				ended = true
				sum.Pulls, sum.Lookups, sum.Failures, sum.Execs = sum.Pulls+e.Pulls, sum.Lookups+e.Lookups, sum.Failures+e.Failures, sum.Execs+e.Execs
				sum.LongestExec = max(sum.LongestExec, e.LongestExec)
			}
		}
		if !ended {
			errs = append(errs, fmt.Errorf("process %d did not say how it ended", n))
		}
		for i, win := range windows(s.changed, w.events) {
			fmt.Fprintf(out, "process %d, password %d: %4d pulls failed; the last began %6.1f s after the change, explained until %5.1f s\n",
				n, i, win.failures, win.last.Seconds(), win.explained.Seconds())
			if longest = max(longest, win.last); win.failures > 0 {
				latest = max(latest, win.last-max(win.explained, 0))
			}
			if win.tooLong(s.slack) {
				errs = append(errs, fmt.Errorf("process %d, password %d: a pull failed that began %.1f s after the change, which the rule explains until %.1f s: %s",
					n, i, win.last.Seconds(), win.explained.Seconds(), win.example))
			}
		}
	}
	expired := 0
	for _, r := range s.reg.Requests() { // the last 10,000
		if r.Scheme == "Bearer" && r.Status == 401 {
			expired++
		}
	}
	fmt.Fprintf(out, "%d pulls and %d lookups in %d processes, %d changes of the password\n", sum.Pulls, sum.Lookups, len(workers), len(s.changed)-1)
	fmt.Fprintf(out, "%d pulls failed; the longest window %.1f s; at most %.1f s beyond what the rule explains (%s allowed)\n",
		sum.Failures, longest.Seconds(), latest.Seconds(), s.slack)
	fmt.Fprintf(out, "%d runs of the plugin, the longest %s; %d answers invalidated; at least %d requests with an expired token\n",
		sum.Execs, sum.LongestExec.Round(time.Millisecond), invalidated, expired)
	if sum.Pulls == sum.Failures || sum.Execs <= len(workers) && len(s.changed) > 1 {
		errs = append(errs, errors.New("the test is inconclusive: no pull succeeded, or no password was renewed"))
	}
	return errors.Join(errs...)
}
