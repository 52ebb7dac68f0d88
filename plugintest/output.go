// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/diagnose"
	"github.com/regcred/regcred/plugin"
)

// The checks in this file examine the output and exit code of every run.

// runProbes sends valid and invalid requests, so that checkEveryRun can examine how the plugin
// responds and how it fails.
func (s *suite) runProbes() {
	s.baseRun()
	bad := []malformedInput{garbageInput, emptyInput, truncatedInput}
	if !s.isOutOfTree() {
		for _, version := range supportedVersions() {
			s.sendRequest(s.newRequest(version))
		}
		bad = append([]malformedInput{unknownVersionInput, wrongKindInput}, bad...)
	}
	for _, m := range bad {
		m.send(s)
	}
	runOversized(s)
	if s.isOutOfTree() {
		return
	}
	s.runV1(true, true)
	s.runV1(false, false)
}

// checkEveryRun returns a check that examines all runs and reports the first run with a
// finding.
func checkEveryRun(one func(*run) []Finding, ok string) func(*suite) []Finding {
	return func(s *suite) []Finding {
		s.runProbes()
		s.skipRest = false // do not skip this check; it examines the existing runs
		if s.baseRun().failedAt(plugin.StageStart) {
			return notStartedFinding()
		}
		var found []Finding
		for _, r := range s.runs {
			found = append(found, one(r)...)
		}
		switch n := len(found); n {
		case 0:
			return passFinding("checked "+diagnose.FormatCount(len(s.runs), "run"), "%s", ok)
		case 1:
		default:
			found[0].Message += fmt.Sprintf(" (and %s more)", diagnose.FormatCount(n-1, "run"))
		}
		return found[:1]
	}
}

func checkExitCode(r *run) []Finding {
	switch {
	case r.exchange.ExitCode == 0 && r.hasNoOutput() && !r.isHung():
		return newFinding(finding.SeverityError, r.action, "exit code 0 and nothing on standard output",
			"The kubelet reports a decoding error and does not log standard error.",
			"Exit with a nonzero code if there is no response. If there is no credential, return an empty auth.")
	case r.exchange.ExitCode > 0 && hasResponse(r.exchange.Stdout.Reveal()):
		return newFinding(finding.SeverityError, r.action, fmt.Sprintf("exit code %d, with a response on standard output", r.exchange.ExitCode),
			"The kubelet discards the response.", "Exit with code 0 after writing a response.")
	}
	return nil
}

// hasResponse reports whether stdout contains a response in any version.
func hasResponse(stdout string) bool {
	for _, version := range supportedVersions() {
		if _, err := plugin.DecodeResponse([]byte(stdout), version); err == nil {
			return true
		}
	}
	resp, err := plugin.DecodeResponse([]byte(stdout), plugin.OutOfTree)
	return err == nil && len(resp.Auth) > 0 // any JSON object is a response without credentials, so require a credential
}

func checkFailureStdout(r *run) []Finding {
	if !r.exitedWithError() || r.hasNoOutput() || hasResponse(r.exchange.Stdout.Reveal()) {
		return nil
	}
	return newFinding(finding.SeverityWarning, r.action, fmt.Sprintf("%v, and %s on standard output", r.err.Err, diagnose.FormatCount(len(r.exchange.Stdout.Reveal()), "byte")),
		"The kubelet discards a failed plugin's standard output and logs its standard error.",
		"Write errors, help and logs to standard error, and only complete responses to standard output.")
}

func checkFailureMessage(r *run) []Finding {
	if !r.exitedWithError() || strings.TrimSpace(r.exchange.Stderr) != "" {
		return nil
	}
	return newFinding(finding.SeverityWarning, r.action, fmt.Sprintf("%v, and nothing on standard error", r.err.Err),
		"The kubelet logs only an exit status, without a reason.",
		"Print one line to standard error: what was attempted, why it failed and how to fix it.")
}

func checkCrash(r *run) []Finding {
	what := r.describeCrash()
	if what == "" {
		return nil
	}
	return newFinding(finding.SeverityError, r.action, what, "The kubelet logs the whole trace, which hides the reason.",
		"Handle the error, print one line to standard error and exit with code 1.")
}

func checkStderrSecret(r *run) []Finding {
	if !r.exchange.StderrSecret {
		return nil
	}
	return newFinding(finding.SeverityError, r.action, "the token or a password on standard error",
		"The kubelet logs a failed plugin's standard error, where many users can read it.",
		"Do not log requests, responses, or any part of a token.")
}

// maxStderrSize is the size of standard error at which a warning is reported.
const maxStderrSize = 4 << 10

func checkStderrVolume(r *run) []Finding {
	if len(r.exchange.Stderr) <= maxStderrSize {
		return nil
	}
	return newFinding(finding.SeverityWarning, r.action, "more than 4 KiB of output on standard error",
		"The kubelet keeps all of standard error in memory and logs all of it if the plugin fails.",
		"Print the error on one line, and log details only on request.")
}

func checkStderrUsage(r *run) []Finding {
	if !r.exitedWithError() || !regexp.MustCompile(`(?mi)^\s*(usage( of .*)?|(global )?flags|(available )?commands|options):`).MatchString(r.exchange.Stderr) {
		return nil
	}
	return newFinding(finding.SeverityWarning, r.action, fmt.Sprintf("%v, with a usage message on standard error", r.err.Err),
		"The kubelet logs the usage message on each pull.",
		"Print the usage message only for invalid arguments (with cobra, set SilenceUsage).")
}

func checkLingering(r *run) []Finding {
	if !r.exchange.Lingering {
		return nil
	}
	return newFinding(finding.SeverityError, r.action, "the plugin exited, but a process that it started kept its standard output or standard error open",
		"The kubelet, and therefore the pull, waits until the process exits, even past the one-minute timeout.",
		"Do not start a process that outlives the plugin; if this is unavoidable, connect the process's three standard streams to /dev/null.")
}
