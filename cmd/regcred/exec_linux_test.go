// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// TestExecOnTerminal checks that a command can read from the terminal and gets each ^C once. ^Z
// must stop both the command and regcred, so that the shell can resume them.
func TestExecOnTerminal(t *testing.T) {
	bash, err := exec.LookPath("bash") // with job control
	if err != nil {
		t.Skip("it needs bash, which has jobs and, unlike many a sh, knows of the terminal: ", err)
	}
	master, slave := openTerminal(t)
	e := newPluginExecution(t, `trap 'n=x$n; echo "got $n"' INT; echo "tty $(tty)"; while :; do read line || continue; echo "read $line"; test "$line" = end && exit 5; done`)
	args := append([]string{"-m", "-c", `"$@"; code=$?; echo "stopped $code"; fg >/dev/null; echo "ended $?"`, "bash"}, e.Args...)
	args[4] = e.Path
	shell := exec.Command(bash, args...)
	shell.Env = e.Env
	shell.Stdin, shell.Stdout, shell.Stderr = slave, slave, slave
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must.Do(t, shell.Start())
	slave.Close()
	steps := []struct{ wait, write string }{
		{"tty /dev/pts/", "\x03"},
		{"got x\r\n", "one\n"},
		{"read one\r\n", "\x03"},
		{"got xx\r\n", "\x1a"},
		{"stopped 148\r\n", "end\n"},
	}
	var screen bytes.Buffer
	buf := make([]byte, 4096)
	for {
		n, err := master.Read(buf) // returns an error when the last writer has closed
		screen.Write(buf[:n])
		for len(steps) > 0 && strings.Contains(screen.String(), steps[0].wait) {
			master.WriteString(steps[0].write)
			steps = steps[1:]
		}
		if err != nil {
			break
		}
	}
	shell.Wait()
	if text := screen.String(); !strings.Contains(text, "read end\r\n") || !strings.Contains(text, "ended 5\r\n") || strings.Contains(text, "xxx") {
		t.Errorf("the terminal has %q", text)
	}
	if left := e.remainingFiles(t); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}
