// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package dockerclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// changerPathVar is an environment variable with the path of a file. It makes the test binary change
// the file back and forth until it is killed.
const changerPathVar = "REGCRED_TEST_CHANGER"

func TestMain(m *testing.M) {
	if path := os.Getenv(changerPathVar); path != "" {
		fmt.Println("running")
		for {
			for _, edit := range []func([]byte) ([]byte, error){putDesired, RemoveEntries} {
				if _, err := ApplyChange(context.Background(), path, edit); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
			}
		}
	}
	os.Exit(m.Run())
}

func putDesired(data []byte) ([]byte, error) { return PutEntries(data, desiredEntries) }

func writeTestFile(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	if err := os.Chmod(path, mode); err != nil { // independent of the umask
		t.Fatal(err)
	}
}

func readTestFile(t *testing.T, path string) string {
	t.Helper()
	data := must.Get(os.ReadFile(path))(t)
	return string(data)
}

// checkOnlyFiles checks that dir contains exactly the given files.
func checkOnlyFiles(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(names, " ") {
		t.Errorf("%s has %q, want %q", dir, got, names)
	}
}

// TestApply verifies that ApplyChange preserves modes, owners and symlinks.
func TestApply(t *testing.T) {
	for name, tt := range editCases {
		for _, mode := range []fs.FileMode{0o600, 0o644, 0o400, 0o660} {
			dir := t.TempDir()
			path := filepath.Join(dir, "config.json")
			writeTestFile(t, path, tt.old, mode)
			link := filepath.Join(t.TempDir(), "link.json")
			must.Do(t, os.Symlink(path, link))
			if os.Geteuid() == 0 {
				must.Do(t, os.Chown(path, 12345, 54321))
			}
			before := statFile(t, path)
			if c, err := ApplyChange(t.Context(), link, putDesired); err != nil || !c.IsChanged() || c.Path != link {
				t.Fatalf("%s: %v (%v)", name, c, err)
			}
			if got := readTestFile(t, path); got != tt.new {
				t.Errorf("%s: got %q", name, got)
			}
			if c, err := ApplyChange(t.Context(), path, putDesired); err != nil || c.IsChanged() {
				t.Errorf("%s, again: %v (%v)", name, c, err)
			}
			if _, err := ApplyChange(t.Context(), link, RemoveEntries); err != nil || readTestFile(t, path) != tt.old {
				t.Errorf("%s: got %q (%v)", name, readTestFile(t, path), err)
			}
			if to, err := os.Readlink(link); err != nil || to != path {
				t.Errorf("%s: the link leads to %q (%v)", name, to, err)
			}
			after := statFile(t, path)
			if before.Mode != after.Mode || before.Uid != after.Uid || before.Gid != after.Gid {
				t.Errorf("%s: %o of %d:%d became %o of %d:%d", name, before.Mode, before.Uid, before.Gid, after.Mode, after.Uid, after.Gid)
			}
			checkOnlyFiles(t, dir, "config.json")
		}
	}
}

func statFile(t *testing.T, path string) *syscall.Stat_t {
	t.Helper()
	info := must.Get(os.Stat(path))(t)
	return info.Sys().(*syscall.Stat_t)
}

// TestApplyCreates verifies that a new file and its directory are private, and that RemoveEntries
// removes the file.
func TestApplyCreates(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b]*", "c")
	path := filepath.Join(dir, "config.json")
	must.Get(ApplyChange(t.Context(), path, putDesired))(t)
	for name, want := range map[string]uint32{dir: 0o700, path: 0o600} {
		if got := statFile(t, name).Mode & 0o777; uint32(got) != want {
			t.Errorf("%s: mode %o, want %o", name, got, want)
		}
	}
	writeTestFile(t, filepath.Join(dir, ".config.json-12345678.regcred-new"), "{", 0o600) // a leftover
	if c, err := ApplyChange(t.Context(), path, RemoveEntries); err != nil || c.New != nil {
		t.Errorf("got %q (%v)", c.New, err)
	}
	checkOnlyFiles(t, dir)
}

func TestApplyRefuses(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	writeTestFile(t, in("writable.json"), "{}", 0o602)
	writeTestFile(t, in("garbage.json"), "{\"auths\": \"open-sesame", 0o600)
	writeTestFile(t, in("large.json"), strings.Repeat(" ", 1<<20)+"{}", 0o600)
	for from, to := range map[string]string{"dangling.json": "nothing", "loop.json": "loop.json"} {
		must.Do(t, os.Symlink(to, in(from)))
	}
	must.Do(t, syscall.Mkfifo(in("pipe.json"), 0o600))
	for name, want := range map[string]string{
		"writable.json":      "other users can change it; run chmod o-w",
		"garbage.json":       "line 1: invalid JSON",
		"large.json":         "larger than 1048576 bytes",
		"dangling.json":      "is a dangling symlink to nothing: remove it",
		"loop.json":          "too many links",
		"pipe.json":          "is a named pipe, not a regular file",
		"writable.json/x":    "not a directory",
		"garbage.json/x/yyy": "not a directory",
	} {
		before := ""
		if info, err := os.Stat(in(name)); err == nil && info.Mode().IsRegular() {
			before = readTestFile(t, in(name))
		}
		_, err := ApplyChange(t.Context(), in(name), putDesired)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), strings.SplitN(name, "/", 2)[0]) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: the error has what is in it", name)
		}
		if before != "" && readTestFile(t, in(name)) != before {
			t.Errorf("%s has changed", name)
		}
	}
}

// TestApplyReadOnly verifies the error for a directory that the user cannot write to. Root can
// write to it, so the test then runs as another user.
func TestApplyReadOnly(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "regcred-test-") // other users can enter this directory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "config.json")
	writeTestFile(t, path, "{}", 0o444)
	must.Do(t, os.Chmod(dir, 0o555))
	if os.Geteuid() != 0 {
		_, err := ApplyChange(t.Context(), path, putDesired)
		if !errors.Is(err, fs.ErrPermission) || readTestFile(t, path) != "{}" {
			t.Errorf("got %v and %q", err, readTestFile(t, path))
		}
		return
	}
	binary := filepath.Join(dir, "changer")
	if data, err := os.ReadFile(os.Args[0]); err != nil || os.WriteFile(binary, data, 0o755) != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), changerPathVar+"="+path, "GOCOVERDIR=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	out, _ := cmd.CombinedOutput()
	if !strings.Contains(string(out), "write a temporary file next to "+path+": ") || !strings.Contains(string(out), "permission denied") {
		t.Errorf("got %q", out)
	}
	if got := readTestFile(t, path); got != "{}" {
		t.Errorf("the file became %q", got)
	}
}

// TestApplyKilled repeatedly kills a process that is changing a file. It verifies that the file is
// always the old or the new one, and that temporary files do not accumulate.
func TestApplyKilled(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.json")
	old := editCases["docker's"].old
	writeTestFile(t, path, old, 0o600)
	for range 25 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), changerPathVar+"="+path)
		stdout := must.Get(cmd.StdoutPipe())(t)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		must.Do(t, cmd.Start())
		stdout.Read(make([]byte, 1)) // it has started; it is killed at a random moment
		for range 200 {
			if got := readTestFile(t, path); got != old && got != editCases["docker's"].new {
				t.Fatalf("the file is %q", got)
			}
		}
		cmd.Process.Kill()
		cmd.Wait()
		if stderr.Len() > 0 {
			t.Fatal(stderr.String())
		}
		left, err := filepath.Glob(filepath.Join(dir, ".config.json-*.regcred-new"))
		if err != nil || len(left) > 1 {
			t.Errorf("left behind: %q (%v)", left, err)
		}
	}
	for _, edit := range []func([]byte) ([]byte, error){putDesired, RemoveEntries} {
		must.Get(ApplyChange(t.Context(), path, edit))(t)
	}
	if got := readTestFile(t, path); got != old {
		t.Errorf("got %q", got)
	}
	must.Get(ApplyChange(t.Context(), path, putDesired))(t)
	checkOnlyFiles(t, dir, "config.json")
}

// TestConcurrentApply verifies that concurrent calls of ApplyChange lose no change.
func TestConcurrentApply(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	writeTestFile(t, path, "{\n\t\"auths\": {}\n}", 0o600)
	const workers = 8
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			_, err := ApplyChange(t.Context(), path, func(data []byte) ([]byte, error) {
				return bytes.Replace(data, []byte("{\n"), fmt.Appendf(nil, "{\n\t\"n%d\": 1,\n", i), 1), nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := strings.Count(readTestFile(t, path), "\"n"); got != workers {
		t.Errorf("%d of %d changes are there:\n%s", got, workers, readTestFile(t, path))
	}
}

// TestApplyDuringForeignWrite verifies that ApplyChange does not lose the changes of a program that
// takes no lock.
func TestApplyDuringForeignWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	writeTestFile(t, path, "{}", 0o600)
	changes := 0
	edit := func(data []byte) ([]byte, error) {
		if changes++; changes <= 3 {
			writeTestFile(t, path, fmt.Sprintf(`{"n": %d}`, changes), 0o600)
		}
		return putDesired(data)
	}
	must.Get(ApplyChange(t.Context(), path, edit))(t)
	if got := readTestFile(t, path); !strings.Contains(got, `"n": 3`) || !strings.Contains(got, `"a.example": "regcred"`) {
		t.Errorf("got %s", got)
	}
	writeTestFile(t, path, "{}", 0o600)
	_, err := ApplyChange(t.Context(), path, func(data []byte) ([]byte, error) {
		changes++
		writeTestFile(t, path, fmt.Sprintf(`{"n": %d}`, changes), 0o600)
		return putDesired(data)
	})
	if !errors.Is(err, errConcurrentChange) {
		t.Errorf("got %v, want %v", err, errConcurrentChange)
	}
}
