// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/regcred/regcred/internal/must"
)

// TestPluginTestOnTerminal runs the suite on a terminal of 80 columns. The progress bar
// is removed at the end, and color is printed only if enabled.
func TestPluginTestOnTerminal(t *testing.T) {
	colour := regexp.MustCompile("\x1b\\[[0-9]*m")
	bar := regexp.MustCompile(`check [1-9]\d* of \d+ \[`)
	for _, tt := range []struct {
		name    string
		environ string
		args    []string
		colours bool
		bar     bool // a single check may be too fast for the bar
	}{
		{"colours", "TERM=xterm", nil, true, true},
		{"NO_COLOR", "NO_COLOR=1", []string{"--check", "cache-duration"}, false, true},
		{"dumb", "TERM=dumb", []string{"--check", "cache-duration"}, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			screen := runOnTerminal(t, tt.environ, append([]string{"plugin", "test", "slip"}, tt.args...)...)
			if got := colour.MatchString(screen); got != tt.colours {
				t.Errorf("colours: got %v, want %v", got, tt.colours)
			}
			if got := bar.MatchString(screen); got && !tt.bar || !got && tt.bar && tt.args == nil {
				t.Errorf("progress bar: got %v, want %v", got, tt.bar)
			}
			drawn, result, ok := strings.Cut(colour.ReplaceAllString(screen, ""), "plugin        ")
			if drawn != "" && !strings.HasSuffix(drawn, "\x1b[J") {
				t.Errorf("the bar is not erased:\n%q", drawn)
			}
			if !ok || !strings.Contains(result, "\nerror    cache-duration         cacheDuration 21.6µs\n") {
				t.Fatalf("no table:\n%q", screen)
			}
			if strings.Contains(result, "\x1b") {
				t.Errorf("something is drawn after the bar:\n%q", result)
			}
			for line := range strings.Lines(result) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 && !strings.Contains(line, os.TempDir()) { // paths are not wrapped
					t.Errorf("%d columns: %s", n, line)
				}
			}
		})
	}
}

// runOnTerminal runs regcred on a terminal, in a directory with the test plugins, and
// returns its output.
func runOnTerminal(t *testing.T, environ string, args ...string) string {
	t.Helper()
	regcred := must.Get(exec.LookPath("regcred"))(t)
	bin := filepath.Join(t.TempDir(), "bin")
	must.Do(t, linkPlugins(bin))
	master, slave := openTerminal(t)
	cmd := exec.Command(regcred, args...)
	cmd.Dir = bin
	cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=", "GORACE="+noRaceSleep, environ)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	must.Do(t, cmd.Start())
	slave.Close()
	screen, _ := io.ReadAll(master) // returns an error when the last writer has closed
	if err := cmd.Wait(); err == nil {
		t.Error("exit code 0, want 1")
	}
	return strings.ReplaceAll(string(screen), "\r\n", "\n")
}
