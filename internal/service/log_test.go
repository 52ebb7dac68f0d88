// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/regcred/regcred/internal/must"
)

// TestLogShowsCauseFirst verifies that the line with the cause comes first, followed by the last
// lines of the log.
func TestLogShowsCauseFirst(t *testing.T) {
	info := func(n int) string { return fmt.Sprintf("I1123 00:00:00.%06d  1 x.go:1] \"line %d\"", n, n) }
	var lines []string
	for n := range 100 {
		lines = append(lines, info(n))
	}
	const (
		auth  = `E1123 00:00:00.000000  1 run.go:72] "Failed to register CRI auth plugins" err="plugin binary directory /x did not exist"`
		other = `E1123 00:00:00.000000  1 x.go:1] "Unable to update cni config" err="no networks found"`
		soft  = `I1123 00:00:00.000000  1 x.go:1] "Skipped" err="x"`
	)
	for name, tt := range map[string]struct {
		lines []string
		first string
	}{
		"none says why":         {lines, info(80)},
		"long ago":              {slices.Concat([]string{auth}, lines), auth},
		"others after it":       {slices.Concat([]string{auth, other}, lines, []string{other, soft}), auth},
		"an error of many":      {slices.Concat([]string{other}, lines, []string{soft}), other},
		"the last of the worst": {[]string{unknownFlagLine + "1", unknownFlagLine + "2", info(1)}, redactAndShorten(unknownFlagLine + "2")},
		"panic":                 {slices.Concat([]string{"panic: x"}, lines, []string{other}), "panic: x"},
		"nothing":               {nil, ""},
	} {
		got := selectLines(tt.lines)
		if len(got) != min(len(tt.lines), 20) || len(got) > 0 && got[0] != tt.first {
			t.Errorf("%s: got %d lines, %q…", name, len(got), got[:min(1, len(got))])
		}
	}
	flag := "I1123 23:20:03.541004     236 flags.go:64] FLAG: --seccomp-default=\"false\""
	if got := selectLines(slices.Concat([]string{other, auth}, slices.Repeat([]string{flag}, 180))); !slices.Equal(got, []string{auth, other}) {
		t.Errorf("flags of the next process: %q", got)
	}
	// After the problem in auth was fixed, the kubelet exited for another reason.
	const later = `E1123 00:00:09.000000     300 run.go:72] "command failed" err="failed to run Kubelet: x"`
	runs := `I1123 00:00:12.000000     400 x.go:1] "runs"`
	if got := selectLines([]string{auth, other, later, runs}); !slices.Equal(got, []string{later, runs}) {
		t.Errorf("two that ended: %q", got)
	}
	// Some lines that explain an exit contain no process ID.
	begun := `I1123 00:00:08.000000     300 server.go:1] "begun"`
	for _, tt := range []struct {
		end  []string
		want string
	}{
		{[]string{"panic: x", "goroutine 1 [running]:"}, "panic: x"},
		{[]string{`time="2026-11-23T00:00:09Z" level=fatal msg="starting kubernetes: x"`}, `time="2026-11-23T00:00:09Z" level=fatal msg="starting kubernetes: x"`},
		{[]string{`time="2026-11-23T00:00:09Z" level=error msg="kubelet exited: x"`, `time="2026-11-23T00:00:09Z" level=fatal msg="context canceled"`}, `time="2026-11-23T00:00:09Z" level=error msg="kubelet exited: x"`},
	} {
		got := selectLines(slices.Concat([]string{auth, other, begun}, tt.end))
		if len(got) != 1+len(tt.end) || got[0] != tt.want || slices.Index(got, begun) != 1 {
			t.Errorf("ended with %q: %q", tt.end, got)
		}
	}
	// Without process IDs, all lines are treated as lines of one process.
	if got := selectLines([]string{"a", "panic: x"}); !slices.Equal(got, []string{"panic: x", "a"}) {
		t.Errorf("of no process: %q", got)
	}
	if got := selectLines(slices.Concat([]string{auth}, lines)); got[1] != info(81) || got[19] != info(99) {
		t.Errorf("not the last lines: %q", got)
	}
}

// TestJournal verifies the arguments of journalctl, and that its output is limited and sanitized.
func TestJournal(t *testing.T) {
	at := time.Unix(1_790_000_000, 0)
	for name, tt := range map[string]struct {
		script string
		want   func(lines []string, err error) bool
	}{
		"arguments": {`for a; do echo "$a"; done; env`, func(lines []string, err error) bool {
			text := strings.Join(lines, "\n")
			return err == nil && strings.Contains(text, "_SYSTEMD_UNIT=kubelet.service\n--since=@1790000000\n--lines=1000\n--reverse") && !strings.Contains(text, "HOME=")
		}},
		"flood": {"yes xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx | head -c 20000000", func(lines []string, err error) bool {
			return err == nil && len(lines) == 20
		}},
		"long lines, the last first": {`[ "$1" = --sync ] && exit; n=200; long=$(head -c 4000 /dev/zero | tr '\0' x); while [ $n -gt 0 ]; do echo "$n $long"; n=$((n-1)); done`, func(lines []string, err error) bool {
			return err == nil && len(lines) == 20 && strings.HasPrefix(lines[19], "200 ") && strings.HasPrefix(lines[0], "181 ")
		}},
		"one line without an end": {"head -c 20000000 /dev/zero", func(lines []string, err error) bool {
			return err == nil && len(lines) == 1 && len(lines[0]) < 10*maxLineBytes
		}},
		"control characters": {`printf 'a\033[2Jb\302\233c\377\n\n'`, func(lines []string, err error) bool {
			return err == nil && slices.Equal(lines, []string{`a\x1b[2Jb\u009bc\ufffd`})
		}},
		"may not": {`echo "No journal files were opened due to insufficient permissions." >&2; exit 1`, func(_ []string, err error) bool {
			return err != nil && strings.HasSuffix(err.Error(), "exit status 1: No journal files were opened due to insufficient permissions.")
		}},
		"old, without --sync": {`[ "$1" = --sync ] && exit 1; echo x`, func(lines []string, err error) bool { return err == nil && slices.Equal(lines, []string{"x"}) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := Service{Manager: Systemd{Journalctl: writeScript(t, tt.script)}, Name: "kubelet.service"}
			lines, err := s.Log(t.Context(), at)
			if !tt.want(lines, err) {
				t.Errorf("got %.300q, %v", lines, err)
			}
			for _, line := range lines {
				if strings.ContainsFunc(line, unicode.IsControl) {
					t.Errorf("not fit to be shown: %q", line)
				}
			}
		})
	}
	_, err := Service{Manager: Systemd{Journalctl: filepath.Join(t.TempDir(), "absent")}}.Log(t.Context(), at)
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestJournalHangs verifies that a journalctl that hangs is killed.
func TestJournalHangs(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := Service{Manager: Systemd{Journalctl: writeScript(t, "exec sleep 1000")}}.Log(ctx, time.Now())
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// TestFileLog verifies that only the lines of a log file since the given time are used.
func TestFileLog(t *testing.T) {
	at := time.Date(2026, 11, 23, 10, 0, 0, 500, time.Local)
	const old = "E1123 09:59:59.000000  1 x.go:1] \"old\" err=\"unknown flag: --old\"\n"
	const young = "I1123 10:00:00.000001  1 x.go:1] \"young\"\r\nwithout a head\n"
	for name, tt := range map[string]struct {
		content string
		want    []string
	}{
		"both":         {old + young, []string{`I1123 10:00:00.000001  1 x.go:1] "young"`, "without a head"}},
		"old ones":     {old, nil},
		"k3s":          {`time="2020-01-01T00:00:00Z" level=info msg=old` + "\n" + `time="2030-01-01T00:00:00Z" level=fatal msg=x` + "\n", []string{`time="2030-01-01T00:00:00Z" level=fatal msg=x`}},
		"nothing":      {"", nil},
		"no klog":      {"hello\n", nil},
		"a long story": {strings.Repeat(old, 10_000) + young, []string{`I1123 10:00:00.000001  1 x.go:1] "young"`, "without a head"}},
		"no such day":  {"E1399 10:00:00.000000  1 x.go:1] x\n", nil},
	} {
		name, path := name, filepath.Join(t.TempDir(), "kubelet.log")
		must.Do(t, os.WriteFile(path, []byte(tt.content), 0o600))
		got, err := Service{LogFile: path, Manager: Systemd{Journalctl: "/absent"}}.Log(t.Context(), at)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	_, err := Service{Name: "rke2-server.service", LogFile: t.TempDir()}.Log(t.Context(), at)
	checkError(t, err, "read the log of rke2-server.service: ", "")
}
