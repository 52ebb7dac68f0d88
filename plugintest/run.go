// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/plugin"
)

// run is one run of the plugin with its result.
type run struct {
	did     string
	version string // version of the request
	x       *plugin.Exchange
	err     *plugin.ExecError // nil if the kubelet accepts the response
}

// notRun is used in place of a run that was not made.
func notRun(did string, stage plugin.Stage, err error) *run {
	return &run{
		did: did,
		x:   &plugin.Exchange{ExitCode: -1},
		err: &plugin.ExecError{Stage: stage, ExitCode: -1, Err: err},
	}
}

// answered reports whether a kubelet accepts the response.
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

// ended reports whether the plugin exited with an error.
func (r *run) ended() bool { return r.failed(plugin.StageExec) }

// hung reports whether the plugin was killed at the deadline.
func (r *run) hung() bool { return r.failed(plugin.StageTimeout) }

// silent reports whether standard output is empty.
func (r *run) silent() bool { return strings.TrimSpace(r.x.Stdout.Reveal()) == "" }

// outcome describes a run's result. Standard error is redacted, and only the size of
// standard output is included.
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

// alike reports whether two runs failed with the same message, ignoring numbers such as
// times, PIDs and request IDs.
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

// crashed describes a crash: a Go, Python, Java or Rust stack trace, or an unexpected
// signal. It returns "" if there was no crash.
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

// unfit returns a finding if the plugin does not start or hangs, and nil otherwise.
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

// versions returns the protocol versions, newest first.
func versions() []string { return []string{plugin.V1, plugin.V1Beta1, plugin.V1Alpha1} }

// short returns the short name of a version for use in a sentence.
func short(version string) string {
	if version == plugin.OutOfTree {
		return "the out-of-tree protocol"
	}
	return strings.TrimPrefix(version, protocol.Group+"/")
}

// difference describes how b differs from a, where both are responses for the same
// image. It returns "" if they are equal. Passwords are compared only if two equal
// requests return the same password.
func (s *suite) difference(a, b *plugin.Response) string {
	if what := shape(a, b); what != "" {
		return what
	}
	for _, key := range authKeys(a) {
		if a.Auth[key].Password.Equal(b.Auth[key].Password) {
			continue
		}
		if s.rotating() || s.renewed() {
			return ""
		}
		return fmt.Sprintf("the password for %q differs", shownKey(key))
	}
	return ""
}

// shape is like difference but ignores passwords.
func shape(a, b *plugin.Response) string {
	if a.CacheKeyType != b.CacheKeyType {
		return fmt.Sprintf("cacheKeyType is %s, not %s", b.CacheKeyType, a.CacheKeyType)
	}
	before, after := authKeys(a), authKeys(b)
	if !slices.Equal(before, after) {
		return fmt.Sprintf("the auth keys are %s, not %s", shownKeys(after), shownKeys(before))
	}
	for _, key := range before {
		if a.Auth[key].Username != b.Auth[key].Username {
			return fmt.Sprintf("the user name for %q differs", shownKey(key))
		}
	}
	return ""
}

// rotating reports whether two equal requests return different passwords.
func (s *suite) rotating() bool { return s.anotherPassword(s.again(1)) }

// renewed reports whether a repeated base request returns a different password because
// the service renewed it between two runs.
func (s *suite) renewed() bool {
	return s.anotherPassword(s.runWith(s.cmd, s.request(s.version())))
}

// anotherPassword reports whether a run of the base request differs from the first run
// only in its passwords.
func (s *suite) anotherPassword(r *run) bool {
	base := s.base()
	if !base.answered() || !r.answered() || shape(base.x.Response, r.x.Response) != "" {
		return false
	}
	return !maps.EqualFunc(base.x.Response.Auth, r.x.Response.Auth, plugin.AuthConfig.Equal)
}

// again repeats the base request.
func (s *suite) again(nth int) *run {
	q := s.request(s.version())
	q.nth = nth
	return s.ask(q)
}
