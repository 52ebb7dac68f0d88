// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package plugin

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestMainAnswers(t *testing.T) {
	for _, version := range apiVersions {
		c := testCommand(t, "serve")
		c.APIVersion, c.Args = version, NewSecrets("get-credentials")
		x, err := c.Run(t.Context(), testRequest())
		checkRun(t, x, err, "")
		if x.Stdout.Reveal() != strings.Replace(goodResponse, V1, version, 1) || x.Stderr != "" {
			t.Errorf("%s: another response, or stderr %q", version, x.Stderr)
		}
	}
}

func TestMainSignals(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		x, err := testCommand(t, "serve-signal", testSignal+"="+strconv.Itoa(int(sig))).Run(t.Context(), testRequest())
		e := checkRun(t, x, err, StageExec)
		if x.ExitCode != 1 || !strings.HasSuffix(x.Stderr, ": get credentials: "+sig.String()+" signal received\n") {
			t.Errorf("%v: got %v with stderr %q", sig, e, x.Stderr)
		}
	}
}

func TestMainDiskFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("no /dev/full, to which no response can be written: %v", err)
	}
	defer full.Close()
	c := testCommand(t, "serve")
	cmd := exec.Command(c.Path)
	var stderr bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Environ, bytes.NewReader(requestBytes(t, V1)), full, &stderr
	err = cmd.Run()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(stderr.String(), "write the response: ") {
		t.Errorf("got %v with stderr %q", err, stderr.String())
	}
}
