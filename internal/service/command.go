// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/process"
	"github.com/regcred/regcred/internal/textfmt"
)

// commandOutput runs a read-only command and returns the start of its output, in complete
// lines. The command is killed when ctx is done.
func commandOutput(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = plainEnvironment()
	cmd.WaitDelay = time.Second
	var stdout, stderr headBuffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return stdout.String(), programError(name, err, stderr.String())
}

// runDetached runs a program that changes something. The program continues when ctx or
// this process ends. Its output goes to a file, because a pipe without a reader would
// stop it.
func runDetached(ctx context.Context, name string, args ...string) error {
	printed, err := os.CreateTemp("", "regcred-")
	if err != nil {
		return err
	}
	defer func() { _ = printed.Close() }()
	if err := os.Remove(printed.Name()); err != nil {
		return err
	}
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.SysProcAttr = plainEnvironment(), process.NewGroupAttr()
	cmd.Stdout, cmd.Stderr = printed, printed
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		said, _ := io.ReadAll(io.NewSectionReader(printed, 0, maxLineBytes))
		return programError(name, err, string(said))
	case <-ctx.Done():
		return &Error{fmt.Errorf("%w; %s is still running (process %d)", context.Cause(ctx), name, cmd.Process.Pid), "check the result: " + name + " " + args[0] + " status"}
	}
}

// plainEnvironment returns an environment that makes programs print English without colors.
func plainEnvironment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "SYSTEMD_COLORS=0", "SYSTEMD_PAGER="}
}

// programError adds the last line printed by a failed program to its error.
func programError(name string, err error, stderr string) error {
	if err == nil {
		return nil
	}
	if lines := trimLines(strings.Split(stderr, "\n")); len(lines) > 0 {
		return fmt.Errorf("%s: %w: %s", name, err, redactAndShorten(lines[len(lines)-1]))
	}
	if errors.Is(err, exec.ErrNotFound) {
		return err // err contains the program's name
	}
	return fmt.Errorf("%s: %w", textfmt.EscapeLine(name), err)
}

// headBuffer is a writer that keeps the first bytes.
type headBuffer struct {
	kept []byte
	more bool
}

func (h *headBuffer) Write(p []byte) (int, error) {
	n := min(len(p), maxReadBytes-len(h.kept))
	h.kept = append(h.kept, p[:n]...)
	h.more = h.more || n < len(p)
	return len(p), nil
}

// String returns the kept lines without an incomplete last line. A single incomplete line is
// returned.
func (h *headBuffer) String() string {
	if end := bytes.LastIndexByte(h.kept, '\n'); h.more && end >= 0 {
		return string(h.kept[:end+1])
	}
	return string(h.kept)
}
