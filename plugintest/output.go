// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/regcred/regcred/plugin"
)

// The checks of every run: what the plugin writes where, and its exit code.

// probe makes the runs that show how a plugin answers and how it fails.
func (s *suite) probe() {
	s.base()
	bad := []malformed{malformedGarbage(), malformedEmpty(), malformedTruncated()}
	if !s.outOfTree() {
		for _, version := range versions() {
			s.ask(s.question(version))
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

// every is a check of each run: the first in which one finds something stands
// for all.
func every(one func(*run) []Finding, ok string) func(*suite) []Finding {
	return func(s *suite) []Finding {
		s.probe()
		s.weary = false // what was run is judged all the same
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
		did := fmt.Sprintf("looked at %s", plural(len(s.runs), "run"))
		if n == 0 {
			return pass(did, "%s", ok)
		}
		if n > 1 {
			first[0].Got += fmt.Sprintf(" (and in %s more like it)", plural(n-1, "run"))
		}
		return first
	}
}

func exitCode(r *run) []Finding {
	switch {
	case r.x.ExitCode == 0 && r.silent() && !r.hung():
		return found(Error, r.did, "exit code 0, and nothing on standard output",
			"It reports that the answer cannot be decoded, and none of what standard error says.",
			"Exit with another code than 0 whenever there is no answer. To say that there is no credential, answer with an empty auth.")
	case r.x.ExitCode > 0 && hasAnswer(r.x.Stdout.Reveal()):
		return found(Error, r.did, fmt.Sprintf("exit code %d, and an answer on standard output", r.x.ExitCode),
			"It throws the answer away.", "Exit with code 0 when the answer is written.")
	}
	return nil
}

// hasAnswer reports whether stdout is an answer in any version.
func hasAnswer(stdout string) bool {
	for _, version := range versions() {
		if _, err := plugin.DecodeResponse([]byte(stdout), version); err == nil {
			return true
		}
	}
	resp, err := plugin.DecodeResponse([]byte(stdout), plugin.OutOfTree)
	return err == nil && len(resp.Auth) > 0 // any object is one without
}

func failureStdout(r *run) []Finding {
	if !r.ended() || r.silent() || hasAnswer(r.x.Stdout.Reveal()) {
		return nil
	}
	return found(Warning, r.did, fmt.Sprintf("%v, and %s on standard output", r.err.Err, plural(len(r.x.Stdout.Reveal()), "byte")),
		"It drops standard output of a plugin that fails, and logs standard error.",
		"Write errors, help and logs to standard error, and to standard output nothing but a whole answer.")
}

func failureMessage(r *run) []Finding {
	if !r.ended() || strings.TrimSpace(r.x.Stderr) != "" {
		return nil
	}
	return found(Warning, r.did, fmt.Sprintf("%v, and nothing on standard error", r.err.Err),
		"It logs an exit status and no reason.",
		"Say in one line on standard error what was attempted, what went wrong and what to do.")
}

func crash(r *run) []Finding {
	what := r.crashed()
	if what == "" {
		return nil
	}
	return found(Error, r.did, what, "It logs the whole trace, and the reason is lost in it.",
		"Make an error of it: one line on standard error and exit code 1.")
}

func stderrSecret(r *run) []Finding {
	if !r.x.StderrSecret {
		return nil
	}
	return found(Error, r.did, "the token or a password on standard error",
		"It writes standard error of a plugin that fails into its log, where many can read it.",
		"Log neither requests nor answers, nor parts of a token, and nothing else that holds them.")
}

// manyBytes is how much of standard error is worth a warning.
const manyBytes = 4 << 10

func stderrVolume(r *run) []Finding {
	if len(r.x.Stderr) <= manyBytes {
		return nil
	}
	return found(Warning, r.did, "more than 4 KiB on standard error",
		"It keeps all of it in memory and, if the plugin fails, pastes it into its log.",
		"Say what went wrong in one line; log details only when asked to.")
}

func stderrUsage(r *run) []Finding {
	if !r.ended() || !regexp.MustCompile(`(?mi)^\s*(usage( of .*)?|(global )?flags|(available )?commands|options):`).MatchString(r.x.Stderr) {
		return nil
	}
	return found(Warning, r.did, fmt.Sprintf("%v, and a usage text on standard error", r.err.Err),
		"It logs the usage at each pull.",
		"Print the usage only for wrong arguments (with cobra: SilenceUsage).")
}

func lingering(r *run) []Finding {
	if !r.x.Lingering {
		return nil
	}
	return found(Error, r.did, "the plugin ended, and a process that it had started still held its standard output or standard error",
		"It waits until that process ends, even beyond its minute, and so does the pull.",
		"Start nothing that outlives the plugin, or give it other streams: /dev/null for all three.")
}
