// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package generation_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/flock"
	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/must"
)

// TestForeignManifest verifies that a manifest is rejected if it cannot be the one of its
// generation, or if it names files that regcred does not install.
func TestForeignManifest(t *testing.T) {
	for old, replacement := range map[string]string{
		`"number": 1`:                     `"number": 7`,
		`"schemaVersion": 1,`:             `"schemaVersion": 1, "previous": 2,`,
		`"schemaVersion": 1, `:            `"schemaVersion": 1, "previous": -1,`,
		`"layout"`:                        `"host": [{"kind": "file", "path": "/etc/../etc/passwd", "stage": 1}], "layout"`,
		`"layout":`:                       `"host": [{"kind": "file", "path": "etc/passwd", "stage": 1}], "layout":`,
		`"bin/plugin-1"`:                  `"../../../etc/passwd"`,
		`"name": "bin/plugin-1"`:          `"name": "/etc/passwd"`,
		`"name": "config/providers.json"`: `"name": "config/.."`,
	} {
		s := newStore(t)
		must.Do(t, s.Activate(createGeneration(t, s, 0).Number))
		name := s.GenerationPath(1, "manifest.json")
		data := string(must.Get(os.ReadFile(name))(t))
		old = strings.TrimSuffix(old, " ")
		if !strings.Contains(data, old) {
			t.Fatalf("the manifest has no %s: %s", old, data)
		}
		must.Do(t, os.WriteFile(name, []byte(strings.Replace(data, old, replacement, 1)), 0o600))
		if _, err := s.Manifest(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "manifest.json is damaged: ") {
			t.Errorf("%s: %v", replacement, err)
		}
		if _, err := generation.OpenCurrent(s.Dir); err == nil {
			t.Errorf("%s: the dispatcher reads it", replacement)
		}
	}
}

// TestManifestBytes verifies that the content of a host file is kept byte for byte, and that a
// path that is not UTF-8 is rejected.
func TestManifestBytes(t *testing.T) {
	s := newStore(t)
	for _, content := range []string{"", "M\xfcnchen", "München", "\xff\x00", "�"} {
		m := &generation.Manifest{Host: []generation.HostFile{{Kind: generation.HostKindFile, Path: "/etc/x", Content: content}}}
		must.Do(t, s.Create(t.Context(), m, nil, nil))
		read := must.Get(s.Manifest(t.Context(), m.Number))(t)
		if got := read.Host[0]; got != m.Host[0] {
			t.Errorf("read %+v, want %+v", got, m.Host[0])
		}
	}
	for _, m := range []*generation.Manifest{
		{Host: []generation.HostFile{{Path: "/etc/\xff"}}},
		{Host: []generation.HostFile{{Path: "/etc/x", Target: "/\xff"}}},
		{Layout: generation.KubeletLayout{Original: "/\xff"}},
		{Layout: generation.KubeletLayout{Dirs: []string{"/\xff"}}},
	} {
		if err := s.Create(t.Context(), m, nil, nil); err == nil || !strings.Contains(err.Error(), `\xff" is not UTF-8`) {
			t.Errorf("got %v", err)
		}
	}
	c := generation.SourceFileFromBytes(generation.ConfigFilePath("\xff.yaml"), 0o600, nil)
	if err := s.Create(t.Context(), &generation.Manifest{}, []generation.SourceFile{c}, nil); err == nil || !strings.Contains(err.Error(), "is not UTF-8") {
		t.Errorf("got %v", err)
	}
}

// TestStrayNames verifies that a directory whose name is not the number of a generation does not
// influence the number of the next one.
func TestStrayNames(t *testing.T) {
	for _, name := range []string{"9223372036854775807", "99999999999999999999", "1000000000", "007", "+7", "-7", "7x", "old-7", ""} {
		s := newStore(t)
		createGeneration(t, s, 0)
		must.Do(t, os.MkdirAll(s.Path("generations", name), 0o700))
		if n, err := s.NextNumber(0); n != 2 || err != nil {
			t.Errorf("next to %q: generation %d, %v", name, n, err)
		}
	}
}

// TestLackIsNoDamage verifies that the error for a generation that cannot be read because of a
// lack of file descriptors does not suggest a rollback.
func TestLackIsNoDamage(t *testing.T) {
	const inside = "REGCRED_TEST_DESCRIPTORS"
	if dir := os.Getenv(inside); dir != "" {
		var files []*os.File
		for {
			f, err := os.Open("/")
			if err != nil {
				break
			}
			files = append(files, f)
		}
		for free := 1; free < 4; free++ { // for the directory, and for more and more of its files
			files[len(files)-free].Close()
			_, err := generation.OpenCurrent(dir)
			fmt.Printf("%d: %v\n", free, err)
		}
		for _, f := range files {
			f.Close()
		}
		return
	}
	s := newStore(t)
	must.Do(t, s.Activate(createGeneration(t, s, 0).Number))
	cmd := exec.Command("sh", "-c", `ulimit -n 40; exec "$0" "$@"`, os.Args[0], "-test.run=^TestLackIsNoDamage$")
	cmd.Env = append(os.Environ(), inside+"="+s.Dir)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "too many open files") || strings.Contains(string(out), "damaged") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestLock verifies that a change locks a file that other users cannot open, and that it leaves
// no file behind.
func TestLock(t *testing.T) {
	for dir, run := range map[string]bool{"/run/": true, "/": false} {
		root := t.TempDir()
		if run {
			must.Do(t, os.Mkdir(filepath.Join(root, "run"), 0o755))
		}
		s := generation.Store{FS: inroot.FS{Root: root}, Dir: "/var/lib/regcred"}
		unlock := must.Get(s.Lock(t.Context()))(t)
		name := filepath.Join(root, dir, ".regcred.lock")
		if info := must.Get(os.Lstat(name))(t); info.Mode() != 0o600 {
			t.Errorf("%s: mode %v", name, info.Mode())
		}
		for _, path := range []string{root, filepath.Join(root, dir)} { // what other users can open
			f := must.Get(os.Open(path))(t)
			if held, err := flock.TryLock(f); !held {
				t.Errorf("%s is locked: %v", path, err)
			}
			f.Close()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := s.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second lock: %v", err)
		}
		cancel()
		unlock()
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("%s is left", name)
		}
		must.Do(t, os.Symlink("/etc/passwd", name))
		if _, err := s.Lock(t.Context()); !errors.Is(err, syscall.ELOOP) {
			t.Errorf("through a symlink: %v", err)
		}
	}
}
