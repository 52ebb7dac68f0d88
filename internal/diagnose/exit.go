// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package diagnose

import (
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/protocol"
)

// FailedExit describes a plugin run that did not exit with status 0.
type FailedExit struct {
	State          string // formatted like [os.ProcessState]
	Code           int    // -1 if a signal killed it
	Stdout, Stderr string
	APIVersion     string // of the request

	// FindFlag returns where a flag such as "--region" is configured, or "".
	FindFlag func(flag string) string
}

const (
	causeOutOfMemory = "killed by the system or another process, usually because memory ran out; check \"journalctl -k\" and the memory limit of the kubelet's unit"
	causeCrashed     = "the plugin crashed; report the crash to the plugin's authors"
	causeShellPrefix = "by shell convention, this exit code means that a command run by the plugin "
)

// signalCauses maps signals, by the name that package os prints, to their usual causes.
var signalCauses = map[string]string{
	"killed":              causeOutOfMemory,
	"terminated":          "stopped by another process, for example because the kubelet's unit was stopped",
	"segmentation fault":  causeCrashed,
	"aborted":             causeCrashed,
	"illegal instruction": "the plugin was built for a newer CPU, or its file is corrupt",
	"bad system call":     "a system call filter blocked the plugin; check SystemCallFilter in the kubelet's unit",
}

// exitCodeCauses maps the exit codes of shells (POSIX, "Exit Status for Commands") to
// causes. Shells add 128 to the number of a signal.
var exitCodeCauses = map[int]string{
	126:      causeShellPrefix + "is not executable; check the command's mode and format",
	127:      "by shell convention, this exit code means that a command or library needed by the plugin was not found; the plugin uses the kubelet's PATH unless env in the plugin's entry sets PATH",
	128 + 9:  causeShellPrefix + "was " + causeOutOfMemory,
	128 + 11: causeShellPrefix + "crashed",
}

// Parts of the error messages of flag parsers: pflag, flag, argparse and getopt.
var (
	unknownFlagPattern    = []string{"unknown flag", "flag provided but not defined", "unknown shorthand flag", "unrecognized argument", "unrecognized option", "invalid option"}
	unknownCommandPattern = []string{"unknown command", "unknown subcommand", "invalid choice"}
)

// Explain returns why the plugin failed, or "" if the reason is unknown.
func (e FailedExit) Explain() string {
	stderr := strings.ToLower(e.Stderr)
	has := func(part string) bool { return strings.Contains(stderr, part) }
	name, signaled := strings.CutPrefix(e.State, "signal: ")
	switch {
	case signaled:
		return signalCauses[strings.TrimSuffix(name, " (core dumped)")]
	case has("panic: ") && has("goroutine "):
		return "the plugin crashed with a Go panic; report the crash to the plugin's authors"
	case slices.ContainsFunc(unknownFlagPattern, has):
		return e.explainFlag()
	case slices.ContainsFunc(unknownCommandPattern, has):
		return "the plugin rejected the subcommand in args; compare args with the installed version's --help output"
	case exitCodeCauses[e.Code] != "":
		return exitCodeCauses[e.Code]
	case hasAnyPrefix(strings.ToLower(e.Stdout), dockerHelperErrors):
		return "it " + hintDockerHelper
	case (has(protocol.Group) || has("apiversion") || has("group version")) && (has("not supported") || has("unsupported") || has("no kind ")):
		return "the plugin does not support the request's version, " + e.APIVersion + "; " + explainAPIVersion(e.APIVersion)
	}
	return ""
}

func explainAPIVersion(apiVersion string) string {
	if apiVersion == protocol.VersionV1 {
		return "install a newer plugin, or set apiVersion in the plugin's entry to a version that it supports, " + protocol.VersionV1Beta1 + " or v1alpha1"
	}
	return "set apiVersion: " + protocol.VersionV1 + " in the plugin's entry, or install an older plugin version"
}

func (e FailedExit) explainFlag() string {
	if place := e.FindFlag(findRejectedFlag(e.Stderr)); place != "" {
		return "the plugin rejected the flag in " + place + "; compare it with the installed version's --help output"
	}
	return "the plugin rejected a flag in args; compare args with the installed version's --help output"
}

func findRejectedFlag(stderr string) string {
	for line := range strings.Lines(stderr) {
		lower := strings.ToLower(line)
		for _, message := range unknownFlagPattern {
			i := strings.Index(lower, message)
			if i < 0 || len(lower) != len(line) {
				continue
			}
			for _, word := range strings.Fields(line[i+len(message):]) {
				word, _, _ = strings.Cut(strings.Trim(word, `"'`+"`"), "=")
				if strings.HasPrefix(word, "-") && strings.Trim(word, "-") != "" {
					return word
				}
			}
		}
	}
	return ""
}
