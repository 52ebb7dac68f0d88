// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	tests := []struct {
		name           string
		args           []string
		cancelled      bool
		code           int
		stdout, stderr string
	}{
		{name: "result", args: []string{"version"}, stdout: "regcred "},
		{name: "no arguments", code: exitUsage, stderr: "error: regcred needs a command: "},
		{name: "unknown flag", args: []string{"--x"}, code: exitUsage, stderr: "error: unknown flag: --x\n"},
		{
			name: "interrupted", cancelled: true, code: exitFailed, stderr: "error: interrupted\n",
			args: []string{"get", "--config", "no-such-file", "--bin-dir", ".", "nginx"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.cancelled {
				cancel()
			}
			var stdout, stderr bytes.Buffer
			code := run(ctx, tt.args, strings.NewReader(""), &stdout, &stderr, nil)
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if got := stdout.String(); !strings.HasPrefix(got, tt.stdout) || tt.stdout == "" && got != "" {
				t.Errorf("stdout %q, want prefix %q", got, tt.stdout)
			}
			if got := stderr.String(); !strings.HasPrefix(got, tt.stderr) || tt.stderr == "" && got != "" {
				t.Errorf("stderr %q, want prefix %q", got, tt.stderr)
			}
		})
	}
}

// TestTwoRuns shows that a run leaves nothing behind for the next one.
func TestTwoRuns(t *testing.T) {
	for range 2 {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), []string{"version", "-o", "json"}, nil, &stdout, &stderr, nil); code != 0 {
			t.Errorf("exit code %d: %s", code, stderr.String())
		}
		stdout.Reset()
		if run(t.Context(), []string{"version"}, nil, &stdout, &stderr, nil); !strings.HasPrefix(stdout.String(), "regcred ") {
			t.Errorf("got %q, want the text: -o json was for the run before", stdout.String())
		}
	}
}
