// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
)

// runMainEnv is an environment variable that makes the test binary run the command.
const runMainEnv = "REGCRED_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runMainEnv) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestSignals verifies that an interrupted build leaves no files behind, for SIGINT and SIGTERM.
func TestSignals(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("processes are not sent signals there")
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			bin, temp, out := t.TempDir(), t.TempDir(), t.TempDir()
			begun := filepath.Join(bin, "begun")
			// This go command does not finish.
			must.Do(t, os.WriteFile(filepath.Join(bin, "go"), []byte("#!/bin/sh\n: >"+begun+"\nexec sleep 60\n"), 0o700))
			exe := must.Get(os.Executable())(t)
			var said strings.Builder
			cmd := exec.CommandContext(t.Context(), exe, "-o", filepath.Join(out, "kubelet"))
			cmd.Env = append(os.Environ(), runMainEnv+"=1", "TMPDIR="+temp, "GOTMPDIR=", "PATH="+bin+":"+os.Getenv("PATH"))
			cmd.Stderr = &said
			must.Do(t, cmd.Start())
			for start := time.Now(); ; time.Sleep(time.Millisecond) {
				if _, err := os.Stat(begun); err == nil {
					break
				}
				if time.Since(start) > time.Minute {
					t.Fatal("no go command is run")
				}
			}
			must.Do(t, cmd.Process.Signal(sig))
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(said.String(), "signal received") {
				t.Errorf("%v: %q; want status 1, and that a signal was received", err, said.String())
			}
			for _, dir := range []string{temp, out} {
				if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
					t.Errorf("it has left %v, %v", left, err)
				}
			}
		})
	}
}
