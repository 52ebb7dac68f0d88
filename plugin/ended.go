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
		why = "it does not speak the version that it is asked in, " + c.APIVersion + ": " + otherVersion(c.APIVersion)
	}
	if why != "" {
		return fmt.Errorf("%v: %s", state, why)
	}
	return fmt.Errorf("%v", state)
}

const unknownFlag = "it does not know one of its args: compare them with what its --help lists, in the version that is installed"

// whichFlag is unknownFlag, with the flag that a plugin names.
func (c Command) whichFlag(stderr string) string {
	for i, arg := range c.Args {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if len(name) > 1 && len(name) < len(arg) && strings.Contains(stderr, name) {
			return strings.Replace(unknownFlag, "one of its args: compare them", c.place("args", i)+": compare it", 1)
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
		return "install a newer plugin, or write the apiVersion in its entry that it speaks, " + V1Beta1 + " or v1alpha1"
	}
	return "write apiVersion: " + V1 + " in its entry, or install the plugin in an older version"
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
		return "it crashed (a panic of a Go program): report it to the plugin's authors"
	case has("unknown flag") || has("flag provided but not defined") || has("unknown shorthand flag") || has("unrecognized argument") || has("invalid option"):
		return unknownFlag
	case has("unknown command") || has("unknown subcommand") || has("invalid choice"):
		return "it does not know the subcommand in args: compare it with what its --help lists, in the version that is installed"
	case code == 126:
		return "by the convention of shells, a command that the plugin runs was found and could not be executed: look at its mode and format"
	case code == 127:
		return "by the convention of shells, a command that the plugin runs, or a library that it needs, was not found: the PATH is that of the kubelet, and that of env if it sets one"
	case code == shells+9:
		return "by shell convention, the command that the plugin ran was " + signals["killed"]
	case code == shells+13:
		return "by shell convention, the command that the plugin ran was " + signals["broken pipe"]
	case code == shells+11:
		return "by shell convention, the command that the plugin ran crashed"
	}
	return ""
}

// signals says what usually sends one. A plugin that is over its deadline has
// another error.
var signals = map[string]string{
	"killed":                   "killed by something else, most often for want of memory: look at \"journalctl -k\" and at the memory limit of the kubelet's unit",
	"terminated":               "ended by something else, such as a stop of the kubelet's unit",
	"segmentation fault":       "it crashed: report it to the plugin's authors",
	"aborted":                  "it crashed: report it to the plugin's authors",
	"bus error":                "it crashed, or its file was changed while it ran: install it again, under another name first",
	"illegal instruction":      "it was built for a newer processor than this, or is damaged",
	"bad system call":          "a filter of system calls forbids what it does: look at SystemCallFilter of the kubelet's unit",
	"file size limit exceeded": "it wrote a file beyond its limit: look at LimitFSIZE of the kubelet's unit",
	"cpu time limit exceeded":  "it used more time of the processor than its limit: look at LimitCPU of the kubelet's unit",
	"broken pipe":              "ended for writing to what nobody reads",
}
