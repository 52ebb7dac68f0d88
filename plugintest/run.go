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
	"github.com/regcred/regcred/internal/diagnose"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/plugin"
)

type run struct {
	action   string
	version  string // version of the request
	exchange *plugin.Exchange
	err      *plugin.ExecError // nil if the kubelet accepts the response
}

// newSkippedRun returns a failed run, as a placeholder for a run that was not made.
func newSkippedRun(did string, stage plugin.Stage, err error) *run {
	return &run{
		action:   did,
		exchange: &plugin.Exchange{ExitCode: -1},
		err:      &plugin.ExecError{Stage: stage, ExitCode: -1, Err: err},
	}
}

// hasResponse reports whether a kubelet accepts the response.
func (r *run) hasResponse() bool { return r.err == nil }

// failedAt reports whether the run failed at one of the stages.
func (r *run) failedAt(stages ...plugin.Stage) bool {
	return r.err != nil && slices.Contains(stages, r.err.Stage)
}

func (r *run) exitedWithError() bool { return r.failedAt(plugin.StageExec) }

// isHung reports whether the plugin was killed at the deadline.
func (r *run) isHung() bool { return r.failedAt(plugin.StageTimeout) }

func (r *run) hasNoOutput() bool { return strings.TrimSpace(r.exchange.Stdout.Reveal()) == "" }

// describeOutcome describes the result of a run. Standard error is redacted. For standard
// output, only the size is included.
func (r *run) describeOutcome() string {
	if r.hasResponse() {
		resp := r.exchange.Response
		if resp.APIVersion == plugin.OutOfTree {
			return fmt.Sprintf("a response with %s, after %v", diagnose.FormatCount(len(resp.Auth), "credential"), r.exchange.Duration.Round(time.Millisecond))
		}
		return fmt.Sprintf("a response with %s, cacheKeyType %s, after %v",
			diagnose.FormatCount(len(resp.Auth), "auth key"), resp.CacheKeyType, r.exchange.Duration.Round(time.Millisecond))
	}
	got := fmt.Sprintf("%s: %v", r.err.Stage, r.err.Err)
	if r.exitedWithError() {
		got = r.err.Err.Error()
	}
	if n := len(r.exchange.Stdout.Reveal()); n > 0 && r.exitedWithError() {
		got += fmt.Sprintf(", %s on standard output", diagnose.FormatCount(n, "byte"))
	}
	if line := lastLine(r.exchange.Stderr); line != "" {
		got += fmt.Sprintf("; stderr: %q", truncateText(line))
	}
	return got
}

// failedAlike reports whether two runs failed with the same exit code and message. It ignores
// numbers in messages, such as times, PIDs and request IDs.
func (r *run) failedAlike(o *run) bool {
	return r.exitedWithError() && o.exitedWithError() && r.exchange.ExitCode == o.exchange.ExitCode && normalizeMessage(r.exchange.Stderr) == normalizeMessage(o.exchange.Stderr)
}

func normalizeMessage(s string) string {
	return strings.Join(regexp.MustCompile(`[a-zA-Z]*[0-9][a-zA-Z0-9]*`).Split(s, -1), "#")
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:])
}

// describeCrash describes a crash: a Go, Python, Java or Rust stack trace, or an unexpected
// signal. It returns "" if there was no crash.
func (r *run) describeCrash() string {
	if r.exitedWithError() && r.exchange.ExitCode < 0 {
		return r.err.Err.Error()
	}
	for _, trace := range []struct{ pattern, title string }{
		{`(?m)^goroutine \d+ (gp=\S+ .*)?\[`, "a Go panic"},
		{`(?m)^Traceback \(most recent call last\):`, "a Python traceback"},
		{`(?m)^Exception in thread "`, "a Java exception"},
		{`(?m)^thread '.*' .*panicked at`, "a Rust panic"},
	} {
		if regexp.MustCompile(trace.pattern).MatchString(r.exchange.Stderr) {
			return trace.title
		}
	}
	return ""
}

// unusableFinding returns a finding if the plugin did not start or hung. Otherwise it returns
// nil.
func (r *run) unusableFinding() []Finding {
	switch {
	case r.failedAt(plugin.StageStart):
		return notStartedFinding()
	case r.isHung():
		return hungFinding(r)
	}
	return nil
}

func notStartedFinding() []Finding {
	return skipFinding("the plugin cannot be started; see the base-answer check")
}

func hungFinding(r *run) []Finding {
	return newFinding(finding.SeverityError, r.action, "it did not exit: "+r.describeOutcome(),
		"The kubelet waits a minute, kills the plugin, and pulls anonymously.",
		"Read all of standard input, check it, and then exit.")
}

// supportedVersions returns the versions of the kubelet's protocol, newest first.
func supportedVersions() []string { return []string{plugin.V1, plugin.V1Beta1, plugin.V1Alpha1} }

// versionName returns the short name of a version, for use in a sentence.
func versionName(version string) string {
	if version == plugin.OutOfTree {
		return "the out-of-tree protocol"
	}
	return strings.TrimPrefix(version, protocol.Group+"/")
}

// describeDifference describes how b differs from a. Both are responses for the same image. It
// returns "" if they are equal. Passwords are compared only if equal requests get the same
// password.
func (s *suite) describeDifference(a, b *plugin.Response) string {
	if what := describeNonPasswordDifference(a, b); what != "" {
		return what
	}
	for _, key := range authKeys(a) {
		if a.Auth[key].Password.Equal(b.Auth[key].Password) {
			continue
		}
		if s.rotatesPasswords() || s.wasRenewed() {
			return ""
		}
		return fmt.Sprintf("the password for %q differs", redactKey(key))
	}
	return ""
}

// describeNonPasswordDifference is like describeDifference but ignores passwords.
func describeNonPasswordDifference(a, b *plugin.Response) string {
	if a.CacheKeyType != b.CacheKeyType {
		return fmt.Sprintf("cacheKeyType is %s, not %s", b.CacheKeyType, a.CacheKeyType)
	}
	before, after := authKeys(a), authKeys(b)
	if !slices.Equal(before, after) {
		return fmt.Sprintf("the auth keys are %s, not %s", formatKeys(after), formatKeys(before))
	}
	for _, key := range before {
		if a.Auth[key].Username != b.Auth[key].Username {
			return fmt.Sprintf("the user name for %q differs", redactKey(key))
		}
	}
	return ""
}

// rotatesPasswords reports whether two equal requests return different passwords.
func (s *suite) rotatesPasswords() bool { return s.differsOnlyInPassword(s.repeatBase(1)) }

// wasRenewed reports whether another base request gets a different password than the first,
// because the service has renewed the password since then.
func (s *suite) wasRenewed() bool {
	return s.differsOnlyInPassword(s.sendRequestWith(s.cmd, s.newRequest(s.baseVersion())))
}

// differsOnlyInPassword reports whether the response of r differs from the response of the base
// run, but only in passwords.
func (s *suite) differsOnlyInPassword(r *run) bool {
	base := s.baseRun()
	if !base.hasResponse() || !r.hasResponse() || describeNonPasswordDifference(base.exchange.Response, r.exchange.Response) != "" {
		return false
	}
	return !maps.EqualFunc(base.exchange.Response.Auth, r.exchange.Response.Auth, plugin.AuthConfig.Equal)
}

func (s *suite) repeatBase(nth int) *run {
	q := s.newRequest(s.baseVersion())
	q.repetition = nth
	return s.sendRequest(q)
}
