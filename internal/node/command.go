// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// With returns c with additional arguments, quoted for ExecStart= of the same unit.
func (c Command) With(args ...string) string {
	prefixes, _ := cutPrefixes(c.Text)
	line := c.Text
	for _, arg := range args {
		line += " " + quote(arg, strings.Contains(prefixes, ":"))
	}
	return line
}

// quote quotes a word of a systemd command. literal is true if the command does not
// expand variables.
func quote(arg string, literal bool) string {
	arg = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "%", "%%").Replace(arg)
	if !literal {
		arg = strings.ReplaceAll(arg, "$", "$$")
	}
	if arg == "" || arg == ";" || strings.ContainsAny(arg, " \t\"'\\") {
		return `"` + arg + `"`
	}
	return arg
}

// quotesEnd reports whether every quote of a command is terminated.
func quotesEnd(command string) bool {
	// An open quote would include the additional word.
	words := splitWords(command + " x")
	return len(words) > 0 && words[len(words)-1] == "x"
}

// commandProblem returns why flags at the end of a unit's command would not reach the
// kubelet; "" if they would. program is the base name of the expected executable.
func commandProblem(s *systemdUnit, args []word, program string) string {
	exec := s.exec()
	shells := []string{"sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"}
	// These run the kubelet with another root directory.
	isolators := []string{"docker", "podman", "nerdctl", "ctr", "rkt", "kubelet-wrapper", "systemd-nspawn", "chroot", "nsenter", "unshare", "snap"}
	at := fmt.Sprintf("%s:%d", exec.file, exec.line)
	words := texts(args)
	_, command := cutPrefixes(exec.value)
	name := func(w string) string { return path.Base(w) }
	switch {
	case s.masked:
		return s.fragment + " is masked"
	case len(s.execs) == 0:
		return s.name + " has no ExecStart"
	case len(s.execs) > 1:
		return fmt.Sprintf("%s: %d ExecStart commands", at, len(s.execs))
	case !quotesEnd(command):
		return at + ": unterminated quote"
	case slices.Contains(splitWords(command), ";"):
		return at + ": the line contains several commands"
	case slices.Contains(shells, name(words[0])):
		return at + ": it starts the kubelet through a shell, which does not pass arguments after the script to the kubelet"
	case slices.ContainsFunc(words, func(w string) bool { return slices.Contains(isolators, name(w)) }):
		return at + ": it starts the kubelet in a container or another root directory, where paths differ from the node's"
	case !slices.ContainsFunc(words, func(w string) bool { return name(w) == program || name(w) == "hyperkube" }):
		return fmt.Sprintf("%s: it starts %s, which might not pass flags on to the kubelet", at, words[0])
	case slices.Contains(words, "--"):
		return at + ": arguments after -- are not flags"
	}
	return ""
}
