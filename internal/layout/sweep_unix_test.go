// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux || darwin

package layout

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/regcred/regcred/internal/must"
)

const writerDir = "REGCRED_TEST_WRITER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerDir); dir != "" {
		if err := writeSlowly(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const testContent = "a blob"

func contentDescriptor() v1.Descriptor {
	hash, size, err := v1.SHA256(strings.NewReader(testContent))
	if err != nil {
		panic(err)
	}
	return v1.Descriptor{Digest: hash, Size: size}
}

// writeSlowly writes half a blob, prints "half", and writes the rest after stdin is closed.
func writeSlowly(dir string) error {
	l, err := Open(dir)
	if err != nil {
		return err
	}
	defer l.Close()
	w, err := l.CreateBlob(contentDescriptor())
	if err != nil {
		return err
	}
	defer w.Abort()
	if _, err := io.WriteString(w, testContent[:3]); err != nil {
		return err
	}
	fmt.Println("half")
	if _, err := io.ReadAll(os.Stdin); err != nil {
		return err
	}
	if _, err := io.WriteString(w, testContent[3:]); err != nil {
		return err
	}
	return w.Commit()
}

// startWriter starts a child process that has written half a blob. Closing goOn makes it write
// the rest.
func startWriter(t *testing.T, dir string) (cmd *exec.Cmd, goOn io.Closer) {
	t.Helper()
	self := must.Get(os.Executable())(t)
	cmd = exec.Command(self)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", writerDir+"="+dir)
	cmd.Stderr = os.Stderr
	stdin := must.Get(cmd.StdinPipe())(t)
	stdout := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "half\n" {
		t.Fatalf("the writer said %q: %v", line, err)
	}
	return cmd, stdin
}

func listTempFiles(t *testing.T, dir string) []string {
	t.Helper()
	return must.Get(filepath.Glob(filepath.Join(dir, blobsDir, "*", tempPrefix+"*")))(t)
}

func openLayout(t *testing.T, dir string) *Layout {
	t.Helper()
	l := must.Get(Open(dir))(t)
	t.Cleanup(l.Close)
	return l
}

// TestSweep verifies that Open removes the temporary file of a killed process, but keeps the
// file of a process that is still writing.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	killed, _ := startWriter(t, dir)
	living, goOn := startWriter(t, dir)
	if got := listTempFiles(t, dir); len(got) != 2 {
		t.Fatalf("%d temporary files, want 2", len(got))
	}
	openLayout(t, dir)
	if got := listTempFiles(t, dir); len(got) != 2 {
		t.Fatalf("%d temporary files while both live, want 2", len(got))
	}
	must.Do(t, killed.Process.Signal(syscall.SIGKILL))
	_ = killed.Wait()
	l := openLayout(t, dir)
	if got := listTempFiles(t, dir); len(got) != 1 {
		t.Errorf("%d temporary files after one was killed, want 1", len(got))
	}
	goOn.Close()
	if err := living.Wait(); err != nil {
		t.Errorf("the other: %v", err)
	}
	if have, err := l.VerifyBlob(t.Context(), contentDescriptor()); !have || err != nil {
		t.Errorf("the other's blob: %t, %v", have, err)
	}
	if got := listTempFiles(t, dir); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

// TestSweepKeepsOtherFiles verifies that Open keeps files with other names, named pipes and
// symlinks.
func TestSweepKeepsOtherFiles(t *testing.T) {
	dir := t.TempDir()
	openLayout(t, dir)
	name := tempPrefix + strings.Repeat("A", tempSuffixLength)
	stays := []string{tempPrefix + "x", name + "A", tempPrefix + strings.Repeat("a", tempSuffixLength), "x"}
	for _, n := range append(stays, name) {
		must.Do(t, os.WriteFile(filepath.Join(dir, n), nil, 0o600))
	}
	pipe, link := name[:len(name)-1]+"B", name[:len(name)-1]+"C"
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, pipe), 0o600))
	must.Do(t, os.Symlink("x", filepath.Join(dir, link)))
	openLayout(t, dir)
	for _, n := range append(stays, pipe, link) {
		if _, err := os.Lstat(filepath.Join(dir, n)); err != nil {
			t.Errorf("gone: %v", err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
		t.Errorf("%s is still there", name)
	}
}

// TestSweepDuringWrites verifies that Open does not remove files that other goroutines are
// writing.
func TestSweepDuringWrites(t *testing.T) {
	dir := t.TempDir()
	done := make(chan error)
	const workers, times = 8, 50
	for range workers {
		go func() {
			for range times {
				l, err := Open(dir)
				if err == nil {
					err = l.PutBlob(context.Background(), contentDescriptor(), []byte(testContent))
					_ = os.Remove(filepath.Join(dir, blobPath(contentDescriptor().Digest)))
					l.Close()
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range workers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
