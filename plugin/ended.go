// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"fmt"
	"os"
	"strings"
)

// whyEnded is how a plugin ended that did not end well, and what that says.
func (c Command) whyEnded(state *os.ProcessState, stdout, stderr string) error {
	why := endedBy(state.String(), state.ExitCode(), strings.ToLower(stderr))
	switch {
	case why == unknownFlag:
		why = c.whichFlag(stderr)
	case why != "":
	case isHelper(strings.ToLower(stdout)):
		why = "it " + helperSpeaks
	case refusesVersion(strings.ToLower(stderr)):
		why = "the plugin does not support the request's version, " + c.APIVersion + "; " + otherVersion(c.APIVersion)
	}
	if why != "" {
		return fmt.Errorf("%v: %s", state, why)
	}
	return fmt.Errorf("%v", state)
}

const unknownFlag = "the plugin rejected a flag in args; compare args with the installed version's --help output"

// whichFlag is unknownFlag, with the flag that a plugin names.
func (c Command) whichFlag(stderr string) string {
	for i, arg := range c.Args {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if len(name) > 1 && len(name) < len(arg) && strings.Contains(stderr, name) {
			return strings.Replace(unknownFlag, "a flag in args; compare args", "the flag in "+c.place("args", i)+"; compare it", 1)
		}
	}
	return unknownFlag
}

// refusesVersion knows how this repository's and the clouds' plugins refuse one.
func refusesVersion(stderr string) bool {
	about := strings.Contains(stderr, Group) || strings.Contains(stderr, "apiversion") || strings.Contains(stderr, "group version")
	return about && (strings.Contains(stderr, "not supported") || strings.Contains(stderr, "unsupported") || strings.Contains(stderr, "no kind "))
}

func otherVersion(asked string) string {
	if asked == V1 {
		return "install a newer plugin, or set apiVersion in the plugin's entry to a version that it supports, " + V1Beta1 + " or v1alpha1"
	}
	return "set apiVersion: " + V1 + " in the plugin's entry, or install an older plugin version"
}

// endedBy knows signals by the names that package os gives them, and the codes
// that shells have for what they could not run (POSIX, "Exit Status for Commands").
func endedBy(state string, code int, stderr string) string {
	const shells = 128 // a shell adds the number of a signal
	has := func(part string) bool { return strings.Contains(stderr, part) }
	switch name, signaled := strings.CutPrefix(state, "signal: "); {
	case signaled:
		return signals[strings.TrimSuffix(name, " (core dumped)")]
	case has("panic: ") && has("goroutine "):
		return "the plugin crashed with a Go panic; report the crash to the plugin's authors"
	case has("unknown flag") || has("flag provided but not defined") || has("unknown shorthand flag") || has("unrecognized argument") || has("invalid option"):
		return unknownFlag
	case has("unknown command") || has("unknown subcommand") || has("invalid choice"):
		return "the plugin rejected the subcommand in args; compare args with the installed version's --help output"
	case code == 126:
		return "by shell convention, this exit code means that a command run by the plugin is not executable; check the command's mode and format"
	case code == 127:
		return "by shell convention, this exit code means that a command or library needed by the plugin was not found; the plugin uses the kubelet's PATH unless env in the plugin's entry sets PATH"
	case code == shells+9:
		return "by shell convention, this exit code means that a command run by the plugin was " + signals["killed"]
	case code == shells+13:
		return "by shell convention, this exit code means that a command run by the plugin wrote to a closed pipe"
	case code == shells+11:
		return "by shell convention, this exit code means that a command run by the plugin crashed"
	}
	return ""
}

// signals says what usually sends one. A plugin that is over its deadline has
// another error.
var signals = map[string]string{
	"killed":                   "killed by the system or another process, usually because memory ran out; check \"journalctl -k\" and the memory limit of the kubelet's unit",
	"terminated":               "stopped by another process, for example because the kubelet's unit was stopped",
	"segmentation fault":       "the plugin crashed; report the crash to the plugin's authors",
	"aborted":                  "the plugin crashed; report the crash to the plugin's authors",
	"bus error":                "the plugin crashed, or its file was modified while it was running; to update a plugin, write the new file under a temporary name, then rename it",
	"illegal instruction":      "the plugin was built for a newer CPU, or its file is corrupt",
	"bad system call":          "a system call filter blocked the plugin; check SystemCallFilter in the kubelet's unit",
	"file size limit exceeded": "the plugin exceeded the file size limit; check LimitFSIZE in the kubelet's unit",
	"cpu time limit exceeded":  "the plugin exceeded the CPU time limit; check LimitCPU in the kubelet's unit",
	"broken pipe":              "the plugin wrote to a closed pipe",
}
