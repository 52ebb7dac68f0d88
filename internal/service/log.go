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
	"github.com/regcred/regcred/internal/shown"
)

// How much of a log is shown, and looked at for what to show.
const (
	shownLines = 20
	readLines  = 1000 // a kubelet with --v=1 begins with two hundred
	readBytes  = 256 << 10
	lineBytes  = 1 << 10
)

// Log returns the last lines that the kubelet has written since then, at most 20,
// fit to be shown: no control characters, nothing that looks like a secret, none
// longer than 1 KiB ("…" at its end). The first of
// them is the one that says best why it ended, if one does; of several processes that
// ended, the last counts.
func (s Service) Log(ctx context.Context, since time.Time) (lines []string, err error) {
	err = within(ctx, logWithin, "read the log of "+s.Name, func(ctx context.Context) error {
		if s.LogFile != "" {
			lines, err = fileLog(s.LogFile, since)
		} else {
			lines, err = s.Manager.Log(ctx, s.Name, since, readLines)
		}
		return err
	})
	return telling(lines), err
}

// log is what is shown of the log of processes that failed: those that were
// started since the wait began. The caller's context may have ended.
func (w *watch) log(ctx context.Context) []string {
	if w.since.IsZero() {
		return nil // nothing was started
	}
	lines, err := w.service.Log(context.WithoutCancel(ctx), w.since)
	if err != nil {
		return []string{shown.Line(err.Error())}
	}
	return lines
}

// flagLine is what a kubelet with --v=1 begins with, for each flag that there is: of one
// that has just been started again it would be all that is shown.
var flagLine = regexp.MustCompile(`^I\d{4} \S+ +\d+ flags\.go:\d+\] FLAG: `)

// telling picks what to show: the last lines, after the one that says most.
func telling(lines []string) (picked []string) {
	lines = slices.DeleteFunc(slices.Clone(lines), flagLine.MatchString)
	lines = sinceLastEnd(lines)
	best, most := -1, 0
	for i, line := range lines {
		if tells := weight(line); tells > 0 && tells >= most {
			best, most = i, tells
		}
	}
	if best >= 0 {
		picked = append(picked, lines[best])
		lines = slices.Delete(lines, best, best+1)
	}
	picked = append(picked, lines[max(0, len(lines)-shownLines+len(picked)):]...)
	for i, line := range picked {
		picked[i] = fit(line)
	}
	return picked
}

// sinceLastEnd leaves out what processes had written before the last one that says why
// it ended: they may have ended of something that was mended since. A line that does
// not say whose it is, such as a panic, is of the process that wrote the one before it.
func sinceLastEnd(lines []string) []string {
	ended := false
	for _, line := range slices.Backward(lines) {
		ended = ended || weight(line) >= died
		if process := processOf(line); ended && process != "" {
			return lines[slices.IndexFunc(lines, func(l string) bool { return processOf(l) == process }):]
		}
	}
	return lines
}

// processOf is the id of the process that wrote a line, "" if it does not say so.
func processOf(line string) string {
	if m := klog.FindStringSubmatch(line); m != nil {
		return m[3]
	}
	return ""
}

// klog is how a kubelet's line begins: severity, month and day, time, process.
var klog = regexp.MustCompile(`^([IWEF])(\d{4} \d{2}:\d{2}:\d{2}\.\d{6}) +(\d+) `)

// died is the weight from which on a line says why a kubelet ended.
const died = 3

// weight is how much a line says of why a kubelet ended. These texts are the
// kubelet's (cmd/kubelet/app/server.go), and those of k3s, which has one inside
// (pkg/daemons/executor/embed.go).
func weight(line string) int {
	severe := klog.FindStringSubmatch(line)
	switch {
	case strings.Contains(line, "Failed to register CRI auth plugins"), strings.Contains(line, "unknown flag"), strings.Contains(line, "kubelet exited: "):
		return died + 1
	case strings.Contains(line, `"command failed"`), severe != nil && severe[1] == "F", strings.HasPrefix(line, "panic: "),
		logrus.MatchString(line) && strings.Contains(line, " level=fatal "):
		return died
	case severe != nil && severe[1] == "E" && strings.Contains(line, "err="):
		return 2
	case strings.Contains(line, "err="):
		return 1
	}
	return 0
}

// fit makes a line fit to be shown. Secrets go before it is cut: half of one is one too.
func fit(line string) string {
	line = masked(line)
	if len(line) > lineBytes {
		line = strings.ToValidUTF8(line[:lineBytes], "") + "…"
	}
	return shown.Line(line)
}

// fileLog reads the end of a kubelet's own log file, from the first line on that
// is as young as that.
func fileLog(name string, since time.Time) ([]string, error) {
	f, err := regularfile.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-readBytes), readBytes))
	if err != nil {
		return nil, err
	}
	lines := slices.Collect(strings.Lines(string(data)))
	if info.Size() > readBytes {
		lines = lines[1:] // it began before
	}
	return trimmed(young(lines, since)), nil
}

// young are the lines from the first on that was written at that time or later,
// as far as the lines say so; the year is that of since.
func young(lines []string, since time.Time) []string {
	since = since.Truncate(time.Second)
	for i, line := range lines {
		if at := written(line, since); !at.IsZero() && !at.Before(since) {
			return lines[i:]
		}
	}
	return nil
}

// logrus is how a line of k3s and rke2 begins.
var logrus = regexp.MustCompile(`^time="([^"]{1,64})"`)

// written is when a line was, zero if it does not say so.
func written(line string, since time.Time) (at time.Time) {
	if m := logrus.FindStringSubmatch(line); m != nil {
		at, _ = time.Parse(time.RFC3339, m[1]) // zero of another form
	}
	if m := klog.FindStringSubmatch(line); m != nil {
		at, _ = time.ParseInLocation("2006 0102 15:04:05.000000", fmt.Sprintf("%d %s", since.Local().Year(), m[2]), time.Local)
	}
	return at
}

func trimmed(lines []string) (trimmed []string) {
	for _, line := range lines {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			trimmed = append(trimmed, line)
		}
	}
	return trimmed
}
