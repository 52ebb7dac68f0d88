// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/plugin"
)

// Checks that apply to every run: output and exit code.

// probe performs the runs that show how the plugin responds and fails.
func (s *suite) probe() {
	s.base()
	bad := []malformed{malformedGarbage(), malformedEmpty(), malformedTruncated()}
	if !s.outOfTree() {
		for _, version := range versions() {
			s.ask(s.request(version))
		}
		bad = append([]malformed{malformedUnknownVersion(), malformedKind()}, bad...)
	}
	for _, m := range bad {
		m.send(s)
	}
	oversizedRun(s)
	if s.outOfTree() {
		return
	}
	s.withToken()
	s.withoutToken()
}

// every returns a check that examines all runs and reports the first run with a
// finding.
func every(one func(*run) []Finding, ok string) func(*suite) []Finding {
	return func(s *suite) []Finding {
		s.probe()
		s.skipRest = false // check the runs made so far
		if s.base().failed(plugin.StageStart) {
			return notStarted()
		}
		var first []Finding
		n := 0
		for _, r := range s.runs {
			if f := one(r); f != nil {
				if n++; n == 1 {
					first = f
				}
			}
		}
		did := fmt.Sprintf("checked %s", plural(len(s.runs), "run"))
		if n == 0 {
			return pass(did, "%s", ok)
		}
		if n > 1 {
			first[0].Message += fmt.Sprintf(" (and %s more)", plural(n-1, "run"))
		}
		return first
	}
}

func exitCode(r *run) []Finding {
	switch {
	case r.x.ExitCode == 0 && r.silent() && !r.hung():
		return found(finding.SeverityError, r.did, "exit code 0 and nothing on standard output",
			"The kubelet reports a decoding error and does not log standard error.",
			"Exit with a nonzero code if there is no response. If there is no credential, return an empty auth.")
	case r.x.ExitCode > 0 && hasResponse(r.x.Stdout.Reveal()):
		return found(finding.SeverityError, r.did, fmt.Sprintf("exit code %d, with a response on standard output", r.x.ExitCode),
			"The kubelet discards the response.", "Exit with code 0 after writing a response.")
	}
	return nil
}

// hasResponse reports whether stdout contains a response in any version.
func hasResponse(stdout string) bool {
	for _, version := range versions() {
		if _, err := plugin.DecodeResponse([]byte(stdout), version); err == nil {
			return true
		}
	}
	resp, err := plugin.DecodeResponse([]byte(stdout), plugin.OutOfTree)
	return err == nil && len(resp.Auth) > 0 // any object would be a response without credentials
}

func failureStdout(r *run) []Finding {
	if !r.ended() || r.silent() || hasResponse(r.x.Stdout.Reveal()) {
		return nil
	}
	return found(finding.SeverityWarning, r.did, fmt.Sprintf("%v, and %s on standard output", r.err.Err, plural(len(r.x.Stdout.Reveal()), "byte")),
		"The kubelet discards a failed plugin's standard output and logs its standard error.",
		"Write errors, help and logs to standard error, and only complete responses to standard output.")
}

func failureMessage(r *run) []Finding {
	if !r.ended() || strings.TrimSpace(r.x.Stderr) != "" {
		return nil
	}
	return found(finding.SeverityWarning, r.did, fmt.Sprintf("%v, and nothing on standard error", r.err.Err),
		"The kubelet logs only an exit status, without a reason.",
		"Print one line to standard error: what was attempted, why it failed and how to fix it.")
}

func crash(r *run) []Finding {
	what := r.crashed()
	if what == "" {
		return nil
	}
	return found(finding.SeverityError, r.did, what, "The kubelet logs the whole trace, which hides the reason.",
		"Handle the error, print one line to standard error and exit with code 1.")
}

func stderrSecret(r *run) []Finding {
	if !r.x.StderrSecret {
		return nil
	}
	return found(finding.SeverityError, r.did, "the token or a password on standard error",
		"The kubelet logs a failed plugin's standard error, where many users can read it.",
		"Do not log requests, responses, or any part of a token.")
}

// manyBytes is the size of standard error at which a warning is reported.
const manyBytes = 4 << 10

func stderrVolume(r *run) []Finding {
	if len(r.x.Stderr) <= manyBytes {
		return nil
	}
	return found(finding.SeverityWarning, r.did, "more than 4 KiB of output on standard error",
		"The kubelet keeps all of standard error in memory and logs all of it if the plugin fails.",
		"Print the error on one line, and log details only on request.")
}

func stderrUsage(r *run) []Finding {
	if !r.ended() || !regexp.MustCompile(`(?mi)^\s*(usage( of .*)?|(global )?flags|(available )?commands|options):`).MatchString(r.x.Stderr) {
		return nil
	}
	return found(finding.SeverityWarning, r.did, fmt.Sprintf("%v, with a usage message on standard error", r.err.Err),
		"The kubelet logs the usage message on each pull.",
		"Print the usage message only for invalid arguments (with cobra, set SilenceUsage).")
}

func lingering(r *run) []Finding {
	if !r.x.Lingering {
		return nil
	}
	return found(finding.SeverityError, r.did, "the plugin exited, but a process that it started kept its standard output or standard error open",
		"The kubelet, and therefore the pull, waits until the process exits, even past the one-minute timeout.",
		"Do not start a process that outlives the plugin; if this is unavoidable, connect the process's three standard streams to /dev/null.")
}
