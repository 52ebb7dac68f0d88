// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/inside/plugin"
	"github.com/regcred/regcred/upstream/kubelet"
)

// TestNotReadAgain verifies that a lookup does not read an unchanged configuration. The cost of a
// lookup must not depend on the configuration's size.
func TestNotReadAgain(t *testing.T) {
	list := []provider{{cacheDuration: "1h"}}
	for i := range 50 {
		list = append(list, provider{name: fmt.Sprint("other-", i), match: fmt.Sprintf("[other-%d.example]", i)})
	}
	at := newPluginDir(t, list...)
	for _, path := range []string{at.path, filepath.Dir(at.path)} {
		must.Do(t, ours.register(path, at.dir, kubelet.TokenFuncs{}))
		allocated := func() int {
			return int(testing.AllocsPerRun(10, func() {
				plugin.NewExternalCredentialProviderDockerKeyring("", "", "", "").Lookup("registry.example/app")
			}))
		}
		if n := allocated(); n < 1000 {
			t.Errorf("%s: %d allocations where it was just written: it has to be read", path, n)
		}
		plugin.ShiftClock(5 * time.Second)
		if n := allocated(); n > 100 {
			t.Errorf("%s: %d allocations, want 100 at most: it is read each time", path, n)
		}
		rested := time.Now().Add(-time.Hour)
		must.Do(t, os.Chtimes(at.path, rested, rested))
		plugin.ShiftClock(0)
		if n := allocated(); n < 1000 {
			t.Errorf("%s: %d allocations where it was just changed and the time of that set back: it has to be read", path, n)
		}
		plugin.ShiftClock(20 * time.Second)
		if n := countCredentials(); n != 1 {
			t.Errorf("%s: %d credentials, want 1", path, n)
		}
	}
}

// TestChangeOfSettledFiles changes files that have not been read for a while, in every possible
// way. The next lookup must detect each change.
func TestChangeOfSettledFiles(t *testing.T) {
	does, doesNot := configYAML(provider{}), configYAML(provider{match: "[registry.exampl2]"})
	for _, tt := range []struct {
		name   string
		dir    bool
		lay    func(t *testing.T, dir string)
		change func(t *testing.T, dir string)
	}{
		{"written in place, its time set back", false, func(t *testing.T, dir string) { writeFile(t, dir+"/c.yaml", doesNot, 0o600) },
			func(t *testing.T, dir string) { overwriteFile(t, dir+"/c.yaml", does) }},
		{"in place, in a directory", true, func(t *testing.T, dir string) { writeFile(t, dir+"/c.yaml", doesNot, 0o600) },
			func(t *testing.T, dir string) { overwriteFile(t, dir+"/c.yaml", does) }},
		{"a link to another file", false, func(t *testing.T, dir string) {
			writeFile(t, dir+"/1", doesNot, 0o600)
			writeFile(t, dir+"/2", does, 0o600)
			replaceSymlink(t, "1", dir+"/c.yaml")
		}, func(t *testing.T, dir string) { replaceSymlink(t, "2", dir+"/c.yaml") }},
		{"a ConfigMap", true, configMapUpdate(doesNot, does), func(t *testing.T, dir string) { replaceSymlink(t, "..2", dir+"/..data") }},
		{"a file of a ConfigMap", false, configMapUpdate(doesNot, does), func(t *testing.T, dir string) { replaceSymlink(t, "..2", dir+"/..data") }},
		{"a file more", true, func(t *testing.T, dir string) { writeFile(t, dir+"/c.yaml", doesNot, 0o600) },
			func(t *testing.T, dir string) {
				writeFile(t, dir+"/d.yaml", configYAML(provider{name: "q"}), 0o600)
			}},
		{"in place, a file that came later", true, func(t *testing.T, dir string) { writeFile(t, dir+"/c.yaml", doesNot, 0o600) },
			func(t *testing.T, dir string) {
				writeFile(t, dir+"/d.yaml", configYAML(provider{name: "q", match: "[registry.exampl2]"}), 0o600)
				countCredentials()
				countCredentials()
				overwriteFile(t, dir+"/d.yaml", configYAML(provider{name: "q"}))
			}},
		{"a file moved there", false, func(t *testing.T, dir string) {
			writeFile(t, dir+"/c.yaml", doesNot, 0o600)
			writeFile(t, dir+"/d.yaml", does, 0o600)
		}, func(t *testing.T, dir string) {
			must.Do(t, os.Rename(dir+"/d.yaml", dir+"/c.yaml"))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at, dir := newPluginDir(t, provider{}, provider{name: "q"}), t.TempDir()
			tt.lay(t, dir)
			path := dir + "/c.yaml"
			if tt.dir {
				path = dir
			}
			must.Do(t, ours.register(path, at.dir, kubelet.TokenFuncs{}))
			plugin.ShiftClock(time.Hour)
			for range 2 {
				if n := countCredentials(); n != 0 {
					t.Fatalf("%d credentials before the change, want none", n)
				}
			}
			tt.change(t, dir)
			if n := countCredentials(); n != 1 {
				t.Errorf("%d credentials, want 1", n)
			}
		})
	}
}

// TestChangeAndBack switches from one configuration to another and back. The recorded state of the
// files must belong to the configuration that was read.
func TestChangeAndBack(t *testing.T) {
	at, dir := newPluginDir(t, provider{}), t.TempDir()
	writeFile(t, dir+"/1", configYAML(provider{}), 0o600)
	writeFile(t, dir+"/2", configYAML(provider{match: "[registry.exampl2]"}), 0o600)
	soon := time.Now().Add(2 * time.Hour)
	if err := os.Chtimes(dir+"/2", soon, soon); err != nil { // the state of this file is never trusted
		t.Fatal(err)
	}
	replaceSymlink(t, "1", dir+"/c.yaml")
	must.Do(t, ours.register(dir+"/c.yaml", at.dir, kubelet.TokenFuncs{}))
	plugin.ShiftClock(time.Hour)
	countCredentials()
	for i, file := range []string{"1", "2", "1"} {
		replaceSymlink(t, file, dir+"/c.yaml")
		if n := countCredentials(); n != (i+1)%2 {
			t.Errorf("change %d: %d credentials, want %d", i, n, (i+1)%2)
		}
	}
}

// TestMemoryMappedWrite verifies that a write through a memory map, which may not change the file's times, takes effect
// within ten seconds.
func TestMemoryMappedWrite(t *testing.T) {
	at := newPluginDir(t, provider{match: "[registry.exampl2]"})
	f := must.Get(os.OpenFile(at.path, os.O_RDWR, 0))(t)
	defer f.Close()
	does := configYAML(provider{})
	text := must.Get(syscall.Mmap(int(f.Fd()), 0, len(does), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED))(t)
	defer syscall.Munmap(text)
	copy(text, configYAML(provider{match: "[registry.exampl2]"})) // only the first write changes the file's times
	must.Do(t, ours.register(at.path, at.dir, kubelet.TokenFuncs{}))
	plugin.ShiftClock(time.Hour)
	if n := countCredentials(); n != 0 {
		t.Fatalf("%d credentials before the change, want none", n)
	}
	copy(text, does)
	t.Logf("%d credentials at once", countCredentials())
	plugin.ShiftClock(time.Hour + 11*time.Second)
	if n := countCredentials(); n != 1 {
		t.Errorf("%d credentials, want 1", n)
	}
}

// TestChangeWithinATick writes a file twice in the same clock tick and with the same size. This may
// not change the file's times. From Linux 6.13, the times change if they were read between the two
// writes. TestNotReadAgain covers that.
func TestChangeWithinATick(t *testing.T) {
	at := newPluginDir(t, provider{})
	must.Do(t, ours.register(at.path, at.dir, kubelet.TokenFuncs{}))
	for i := range 60 {
		text, want := configYAML(provider{match: "[registry.exampl2]"}), 0
		if i%2 == 1 {
			text, want = configYAML(provider{}), 1
		}
		must.Do(t, os.WriteFile(at.path, []byte(text), 0o600))
		for range 2 {
			if n := countCredentials(); n != want {
				t.Fatalf("change %d: %d credentials, want %d", i, n, want)
			}
		}
	}
}

// configMapUpdate returns a function that creates a directory like a kubelet's mount of a ConfigMap. It
// contains two versions of the file.
func configMapUpdate(first, second string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		for name, text := range map[string]string{"/..1": first, "/..2": second} {
			must.Do(t, os.Mkdir(dir+name, 0o700))
			writeFile(t, dir+name+"/c.yaml", text, 0o600)
		}
		replaceSymlink(t, "..1", dir+"/..data")
		replaceSymlink(t, "..data/c.yaml", dir+"/c.yaml")
	}
}

func replaceSymlink(t *testing.T, to, name string) {
	t.Helper()
	must.Do(t, os.Symlink(to, name+".part"))
	must.Do(t, os.Rename(name+".part", name))
}

// overwriteFile changes a file's content. It keeps the file's size and all times that can be set.
func overwriteFile(t *testing.T, path, text string) {
	t.Helper()
	state := func() (os.FileInfo, syscall.Timespec) {
		info := must.Get(os.Stat(path))(t)
		return info, info.Sys().(*syscall.Stat_t).Ctim
	}
	before, changed := state()
	for now := changed; now == changed; _, now = state() { // a tick is a few milliseconds
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		must.Do(t, os.Chtimes(path, before.ModTime(), before.ModTime()))
	}
}
