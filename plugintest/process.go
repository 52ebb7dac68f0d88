// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/plugin"
)

// The checks in this file examine run time, signals and concurrency.

func checkRunTime(s *suite) []Finding {
	r := s.baseRun()
	took := r.exchange.Duration.Round(time.Millisecond)
	switch {
	case r.failedAt(plugin.StageStart):
		return notStartedFinding()
	case r.isHung() || r.exchange.Duration >= s.kubeletTimeout:
		return newFinding(finding.SeverityError, r.action, fmt.Sprintf("still running after %v", took),
			"The kubelet kills the plugin after a minute and pulls anonymously.",
			"Limit the total waiting time to less than a minute, and report what the plugin was waiting for.")
	case r.exchange.Duration >= s.slow:
		return newFinding(finding.SeverityWarning, r.action, fmt.Sprintf("exited after %v", took),
			"Each pull without a cached response waits this long, and the kubelet kills the plugin after a minute.",
			"Limit each attempt to a few seconds, retry less often, and use the nearest endpoint.")
	}
	return passFinding(r.action, "exited after %v", took)
}

// blockingStdin is a standard input that stays open. When head has been read, Read calls
// reading and blocks until done is closed.
type blockingStdin struct {
	head    io.Reader
	reading func()
	done    <-chan struct{}
}

func (h *blockingStdin) Read(p []byte) (int, error) {
	if n, _ := h.head.Read(p); n > 0 {
		return n, nil
	}
	h.reading()
	<-h.done
	return 0, io.EOF
}

// abovePipeCapacity is more than the capacity of a pipe. If all of it can be written, the
// process at the other end is reading.
const abovePipeCapacity = 256 << 10

func checkSIGTERM(s *suite) []Finding {
	if runtime.GOOS == "windows" {
		return skipFinding("Windows has no SIGTERM")
	}
	if s.baseRun(); s.tooManyHung() {
		return nil // execute reports the reason
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	readAll := make(chan time.Time, 1)
	stdin := &blockingStdin{
		head:    strings.NewReader(`{"kind":"` + protocol.KindRequest + `","padding":"` + strings.Repeat("x", abovePipeCapacity)),
		reading: func() { readAll <- time.Now(); cancel() },
		done:    done,
	}
	cmd := s.cmd
	cmd.APIVersion, cmd.Grace = s.baseVersion(), s.termTimeout
	_, err := cmd.RunRaw(ctx, stdin, s.identity.secretValues()...)
	ended := time.Now()
	if failed, ok := errors.AsType[*plugin.ExecError](err); ok && failed.Stage == plugin.StageStart {
		return skipFinding("%v", failed.Err)
	}
	did := "sent a partial request, kept standard input open, and sent SIGTERM"
	select {
	case sent := <-readAll:
		if took := ended.Sub(sent); took < s.termTimeout {
			return passFinding(did, "exited after %v", took.Round(time.Millisecond))
		}
	default:
		return skipFinding("the plugin does not wait for EOF on standard input")
	}
	return newFinding(finding.SeverityWarning, did, fmt.Sprintf("the plugin was still running after %v and was killed", s.termTimeout),
		"On timeout, the kubelet sends SIGKILL rather than SIGTERM, but service managers and other hosts send SIGTERM and wait.",
		"Keep SIGTERM's default action, or exit on SIGTERM regardless of what the plugin is waiting for.")
}

// maxConcurrency is the upper limit for Options.Concurrency.
const maxConcurrency = 1000

func checkConcurrent(s *suite, base *plugin.Response) []Finding {
	n := s.opts.Concurrency
	if n <= 0 {
		n = DefaultConcurrency
	}
	n = min(n, maxConcurrency)
	s.rotatesPasswords() // runs the plugin once, and must not be called concurrently
	runs := s.runConcurrently(n)
	if s.skipRest {
		return nil // execute reports the reason
	}
	did := fmt.Sprintf("%s, %d times concurrently", runs[0].action, n)
	var failures []string
	for _, r := range runs {
		s.recordRun(r)
		if !r.hasResponse() {
			failures = append(failures, r.describeOutcome())
		} else if d := s.describeDifference(base, r.exchange.Response); d != "" {
			failures = append(failures, "the response differs from the response of a single run: "+d)
		}
	}
	if len(failures) > 0 {
		return newFinding(finding.SeverityError, did, fmt.Sprintf("%d of %d runs failed; first failure: %s", len(failures), n, failures[0]),
			"When a node starts, the kubelet runs the plugin for many images at the same time, so some pulls fail.",
			"Do not share files or locks between runs. Expect the token service to throttle requests, and retry with jitter before the timeout.")
	}
	return passFinding(did, "every run returned the same response")
}

func (s *suite) runConcurrently(n int) []*run {
	cmd := s.cmd
	cmd.APIVersion = s.baseVersion()
	did, stdin, _ := s.encodeRequest(s.newRequest(cmd.APIVersion)) // no error, because the base request has already been encoded
	if s.tooManyHung() {
		return nil
	}
	runs := make([]*run, n)
	var wg sync.WaitGroup
	for i := range runs {
		wg.Go(func() { runs[i] = s.runPlugin(cmd, did, stdin) })
	}
	wg.Wait()
	return runs
}
