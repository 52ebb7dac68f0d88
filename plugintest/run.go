// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/plugin"
)

// run is one run of the plugin, and how it ended.
type run struct {
	did     string
	version string // of the question, if it was one
	x       *plugin.Exchange
	err     *plugin.ExecError // nil for an answer that a kubelet accepts
}

// notRun stands for a run that was not made.
func notRun(did string, stage plugin.Stage, err error) *run {
	return &run{
		did: did,
		x:   &plugin.Exchange{ExitCode: -1},
		err: &plugin.ExecError{Stage: stage, ExitCode: -1, Err: err},
	}
}

// answered reports whether a kubelet accepts the answer.
func (r *run) answered() bool { return r.err == nil }

// failed reports whether the run failed at one of the stages.
func (r *run) failed(stages ...plugin.Stage) bool {
	for _, stage := range stages {
		if r.err != nil && r.err.Stage == stage {
			return true
		}
	}
	return false
}

// ended reports whether the plugin ended by itself, and not well.
func (r *run) ended() bool { return r.failed(plugin.StageExec) }

// hung reports whether the plugin had to be killed at the deadline.
func (r *run) hung() bool { return r.failed(plugin.StageTimeout) }

// silent reports whether nothing came on standard output.
func (r *run) silent() bool { return strings.TrimSpace(r.x.Stdout.Reveal()) == "" }

// outcome says what came back. Standard error has been scrubbed, and
// standard output is only counted.
func (r *run) outcome() string {
	if r.answered() {
		resp := r.x.Response
		if resp.APIVersion == plugin.OutOfTree {
			return fmt.Sprintf("a response with %s, after %v", plural(len(resp.Auth), "credential"), r.x.Duration.Round(time.Millisecond))
		}
		return fmt.Sprintf("a response with %s, cacheKeyType %s, after %v",
			plural(len(resp.Auth), "auth key"), resp.CacheKeyType, r.x.Duration.Round(time.Millisecond))
	}
	got := fmt.Sprintf("%s: %v", r.err.Stage, r.err.Err)
	if r.ended() {
		got = r.err.Err.Error()
	}
	if n := len(r.x.Stdout.Reveal()); n > 0 && r.ended() {
		got += fmt.Sprintf(", %s on standard output", plural(n, "byte"))
	}
	if line := lastLine(r.x.Stderr); line != "" {
		got += fmt.Sprintf("; stderr: %q", shorten(line))
	}
	return got
}

// alike reports whether two runs failed in the same way: with the same words,
// but for the numbers of a time, a process or a request.
func (r *run) alike(o *run) bool {
	return r.ended() && o.ended() && r.x.ExitCode == o.x.ExitCode && words(r.x.Stderr) == words(o.x.Stderr)
}

func words(s string) string {
	return strings.Join(regexp.MustCompile(`[a-zA-Z]*[0-9][a-zA-Z0-9]*`).Split(s, -1), "#")
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:])
}

// crashed says what looks like a crash, if anything does: a stack trace of
// Go, Python, Java or Rust, or a signal that nobody here sent.
func (r *run) crashed() string {
	if r.ended() && r.x.ExitCode < 0 {
		return r.err.Err.Error()
	}
	for _, trace := range []struct{ pattern, title string }{
		{`(?m)^goroutine \d+ (gp=\S+ .*)?\[`, "a Go panic"},
		{`(?m)^Traceback \(most recent call last\):`, "a Python traceback"},
		{`(?m)^Exception in thread "`, "a Java exception"},
		{`(?m)^thread '.*' .*panicked at`, "a Rust panic"},
	} {
		if regexp.MustCompile(trace.pattern).MatchString(r.x.Stderr) {
			return trace.title
		}
	}
	return ""
}

// unfit is the finding about a run that says nothing but that the plugin
// cannot be started, or hangs; nil if it says more.
func (r *run) unfit() []Finding {
	switch {
	case r.failed(plugin.StageStart):
		return notStarted()
	case r.hung():
		return hangs(r)
	}
	return nil
}

func notStarted() []Finding { return skip("the plugin cannot be started; see the base-answer check") }

func hangs(r *run) []Finding {
	return found(finding.SeverityError, r.did, "it did not exit: "+r.outcome(),
		"The kubelet waits a minute, kills the plugin, and pulls anonymously.",
		"Read all of standard input, check it, and then exit.")
}

// versions are those of the protocol, the newest first.
func versions() []string { return []string{plugin.V1, plugin.V1Beta1, plugin.V1Alpha1} }

// short names a version in a sentence.
func short(version string) string {
	if version == plugin.OutOfTree {
		return "the out-of-tree protocol"
	}
	return strings.TrimPrefix(version, plugin.Group+"/")
}
