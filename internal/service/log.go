// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/scrub"
	"github.com/regcred/regcred/internal/textfmt"
)

// Limits for the lines of a log that are shown, and for the part that is searched.
const (
	maxLogLines  = 20
	maxReadLines = 1000 // a kubelet with --v=1 starts with two hundred lines
	maxReadBytes = 256 << 10
	maxLineBytes = 1 << 10
)

// Log returns at most 20 of the last lines that the kubelet logged after since. Lines contain no
// control characters, nothing that looks like a secret, and at most 1 KiB each. The first line is
// the one that best explains why the kubelet exited, if there is one. If several processes exited,
// Log omits the lines of all but the last one.
func (s Service) Log(ctx context.Context, since time.Time) (lines []string, err error) {
	err = withTimeout(ctx, logTimeout, "read the log of "+s.Name, func(ctx context.Context) error {
		if s.LogFile != "" {
			lines, err = readLogFile(s.LogFile, since)
		} else {
			lines, err = s.Manager.Log(ctx, s.Name, since, maxReadLines)
		}
		return err
	})
	return selectLines(lines), err
}

// recentLog returns the log of the processes started since the wait began. It also works if
// the caller's context is done.
func (w *healthWatch) recentLog(ctx context.Context) []string {
	if w.newProcessStart.IsZero() {
		return nil // nothing was started
	}
	lines, err := w.service.Log(context.WithoutCancel(ctx), w.newProcessStart)
	if err != nil {
		return []string{textfmt.EscapeLine(err.Error())}
	}
	return lines
}

// flagLinePattern matches the lines that a kubelet with --v=1 logs for each flag when it
// starts.
var flagLinePattern = regexp.MustCompile(`^I\d{4} \S+ +\d+ flags\.go:\d+\] FLAG: `)

// selectLines picks the lines to show: the most informative one, then the last ones.
func selectLines(lines []string) (picked []string) {
	lines = slices.DeleteFunc(slices.Clone(lines), flagLinePattern.MatchString)
	lines = linesSinceLastExit(lines)
	best, most := -1, 0
	for i, line := range lines {
		if tells := exitReasonWeight(line); tells > 0 && tells >= most {
			best, most = i, tells
		}
	}
	if best >= 0 {
		picked = append(picked, lines[best])
		lines = slices.Delete(lines, best, best+1)
	}
	picked = append(picked, lines[max(0, len(lines)-maxLogLines+len(picked)):]...)
	for i, line := range picked {
		picked[i] = redactAndShorten(line)
	}
	return picked
}

// linesSinceLastExit drops the lines before those of the last process that logged why it exited.
// Earlier processes may have exited for a reason that has been fixed. A line without a process ID,
// such as a panic, belongs to the same process as the line before it.
func linesSinceLastExit(lines []string) []string {
	ended := false
	for _, line := range slices.Backward(lines) {
		ended = ended || exitReasonWeight(line) >= minExitWeight
		if process := lineProcessID(line); ended && process != "" {
			return lines[slices.IndexFunc(lines, func(l string) bool { return lineProcessID(l) == process }):]
		}
	}
	return lines
}

// lineProcessID returns the ID of the process that wrote a line, or "" if it is unknown.
func lineProcessID(line string) string {
	if m := klogPattern.FindStringSubmatch(line); m != nil {
		return m[3]
	}
	return ""
}

// klogPattern matches the prefix of a kubelet log line: severity, month and day, time, process
// ID.
var klogPattern = regexp.MustCompile(`^([IWEF])(\d{4} \d{2}:\d{2}:\d{2}\.\d{6}) +(\d+) `)

// minExitWeight is the minimum weight of a line that explains why a kubelet exited.
const minExitWeight = 3

// exitReasonWeight returns how well a line explains why a kubelet exited. The messages are from
// the kubelet (cmd/kubelet/app/server.go) and from k3s, which embeds a kubelet
// (pkg/daemons/executor/embed.go).
func exitReasonWeight(line string) int {
	severe := klogPattern.FindStringSubmatch(line)
	switch {
	case strings.Contains(line, "Failed to register CRI auth plugins"), strings.Contains(line, "unknown flag"), strings.Contains(line, "kubelet exited: "):
		return minExitWeight + 1
	case strings.Contains(line, `"command failed"`), severe != nil && severe[1] == "F", strings.HasPrefix(line, "panic: "),
		logrusPattern.MatchString(line) && strings.Contains(line, " level=fatal "):
		return minExitWeight
	case severe != nil && severe[1] == "E" && strings.Contains(line, "err="):
		return 2
	case strings.Contains(line, "err="):
		return 1
	}
	return 0
}

// redactAndShorten redacts and then shortens a line. A shortened secret would not be recognized.
func redactAndShorten(line string) string {
	line = redactLine(line)
	if len(line) > maxLineBytes {
		line = strings.ToValidUTF8(line[:maxLineBytes], "") + "…"
	}
	return textfmt.EscapeLine(line)
}

// readLogFile reads the end of the kubelet's log file, starting with the first line written
// after since.
func readLogFile(name string, since time.Time) ([]string, error) {
	f, err := regularfile.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-maxReadBytes), maxReadBytes))
	if err != nil {
		return nil, err
	}
	lines := slices.Collect(strings.Lines(string(data)))
	if info.Size() > maxReadBytes {
		lines = lines[1:] // incomplete
	}
	return trimLines(linesSince(lines, since)), nil
}

// linesSince returns the lines from the first one whose timestamp is not before since. Timestamps
// without a year are assumed to be from the year of since.
func linesSince(lines []string, since time.Time) []string {
	since = since.Truncate(time.Second)
	for i, line := range lines {
		if at := lineTimestamp(line, since); !at.IsZero() && !at.Before(since) {
			return lines[i:]
		}
	}
	return nil
}

// logrusPattern matches the prefix of a log line of k3s or rke2.
var logrusPattern = regexp.MustCompile(`^time="([^"]{1,64})"`)

// lineTimestamp returns a line's timestamp, or the zero time if it has none.
func lineTimestamp(line string, since time.Time) (at time.Time) {
	if m := logrusPattern.FindStringSubmatch(line); m != nil {
		at, _ = time.Parse(time.RFC3339, m[1]) // zero if the format differs
	}
	if m := klogPattern.FindStringSubmatch(line); m != nil {
		at, _ = time.ParseInLocation("2006 0102 15:04:05.000000", fmt.Sprintf("%d %s", since.Local().Year(), m[2]), time.Local)
	}
	return at
}

func trimLines(lines []string) (trimmed []string) {
	for _, line := range lines {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			trimmed = append(trimmed, line)
		}
	}
	return trimmed
}

// redactLine redacts text that looks like a secret. The kubelet logs its flags, k3s logs its token, and
// both log the errors of other programs.
func redactLine(line string) string {
	const names = `(?:token|passw(?:or)?d|passphrase|secret|api[-_]?key|authorization)`
	for _, form := range []string{ // text in capture groups is kept
		`(://)[^\s"'@]*:[^\s"']*(@)`,                             // user and password of a URL
		`()\beyJ[\w-]{8,}(?:\.[\w-]*)*()`,                        // JSON Web Token
		`(?i)(\b(?:bearer|basic) +)[\w.~+/=-]{8,}()`,             // header
		`()\b[a-z0-9]{6}\.[a-z0-9]{16}\b()`,                      // bootstrap token
		`()\bK10[0-9a-f]{16,}[^\s"\\]*()`,                        // k3s or rke2 token
		`(?i)(` + names + `\\*["']?=\\*["']?)[^\s"'\\,]+()`,      // NAME=VALUE, --NAME="VALUE"
		`(?i)(` + names + `\\*["']\s*:\s*\\*["']?)[^\s"'\\,]+()`, // "NAME": "VALUE"
		`(?i)(passw(?:or)?d:\s*\\*["']?)[^\s"'\\,]+()`,
	} {
		line = regexp.MustCompile(form).ReplaceAllString(line, "${1}"+scrub.Mask+"${2}")
	}
	return line
}
