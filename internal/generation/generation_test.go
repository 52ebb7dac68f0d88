// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package generation_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/must"
)

const providersFileName = `{"apiVersion":"kubelet.config.k8s.io/v1","kind":"CredentialProviderConfig","providers":[{"name":"plugin-%d",
"matchImages":["registry.example"],"defaultCacheDuration":"0s","apiVersion":"credentialprovider.kubelet.k8s.io/v1"}]}`

func newStore(t *testing.T) generation.Store {
	t.Helper()
	return generation.Store{Dir: t.TempDir()}
}

// activationCount is the number of activations in TestSwitches. Each is synced to the disk.
var activationCount = flag.Int("flips", 100, "how many `flips` readers are to see")

// createGeneration creates a generation whose files contain the generation's number.
func createGeneration(t testing.TB, s generation.Store, previous int) *generation.Manifest {
	t.Helper()
	numbers, err := s.ListNumbers()
	if err != nil {
		t.Fatal(err)
	}
	n := 1
	if len(numbers) > 0 {
		n = numbers[len(numbers)-1] + 1
	}
	m := &generation.Manifest{Previous: previous, Created: time.Now(), MaxStale: generation.Duration(time.Minute), Source: fmt.Sprint(n)}
	err = s.Create(t.Context(), m, []generation.SourceFile{
		generation.SourceFileFromBytes(generation.ConfigFilePath("providers.json"), 0o600, fmt.Appendf(nil, providersFileName, n)),
		generation.SourceFileFromBytes(generation.ExecutablePath(fmt.Sprintf("plugin-%d", n)), 0o755, fmt.Appendf(nil, "#!/bin/sh\n# %d\n", n)),
		generation.SourceFileFromBytes(generation.DispatcherName, 0o755, fmt.Appendf(nil, "#!/bin/sh\n# %d\n", n)),
	}, nil)
	if err != nil || m.Number != n {
		t.Fatalf("generation %d: %v", m.Number, err)
	}
	return m
}

// checkSameNumber returns an error unless all files of the open generation contain the same number.
func checkSameNumber(c *generation.LockedGeneration) error {
	name := "plugin-" + c.Manifest.Source
	if c.Config.Providers[0].Name != name || filepath.Base(c.Dir) != c.Manifest.Source {
		return fmt.Errorf("%s has generation %s with provider %s", c.Dir, c.Manifest.Source, c.Config.Providers[0].Name)
	}
	_, err := os.ReadFile(filepath.Join(c.BinDir(), name))
	return err
}

// TestSwitches verifies that concurrent readers always find a complete generation while
// generations are activated and removed.
func TestSwitches(t *testing.T) {
	s := newStore(t)
	const keep = 3
	must.Do(t, s.Activate(createGeneration(t, s, 0).Number))
	var reads atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil {
				c, err := generation.OpenCurrent(s.Dir)
				if err == nil {
					err = checkSameNumber(c)
					c.Close()
				}
				if err != nil {
					t.Error(err)
					return
				}
				reads.Add(1)
			}
		})
	}
	for i := range *activationCount {
		current := must.Get(s.Current())(t)
		next := current - 1 // mostly activate an earlier generation
		if numbers, _ := s.ListNumbers(); i%20 == 0 || !slices.Contains(numbers, next) {
			next = createGeneration(t, s, current).Number
		}
		must.Do(t, errors.Join(s.Activate(next), s.RemoveOld(ctx, keep)))
	}
	stop()
	readers.Wait()
	if numbers, err := s.ListNumbers(); err != nil || len(numbers) > keep+2 {
		t.Errorf("left: %v, %v", numbers, err)
	}
	t.Logf("%d flips under %d reads", *activationCount, reads.Load())
}

// TestSweepLeavesWhatIsInUse verifies that RemoveOld keeps a generation that is open.
func TestSweepLeavesWhatIsInUse(t *testing.T) {
	s := newStore(t)
	must.Do(t, s.Activate(createGeneration(t, s, 0).Number))
	c := must.Get(generation.OpenCurrent(s.Dir))(t)
	for n := 1; n < 5; n++ {
		must.Do(t, errors.Join(s.Activate(createGeneration(t, s, n).Number), s.RemoveOld(t.Context(), 1)))
	}
	if err := checkSameNumber(c); err != nil {
		t.Error(err)
	}
	c.Close()
	must.Do(t, s.RemoveOld(t.Context(), 1))
	if numbers, err := s.ListNumbers(); !slices.Equal(numbers, []int{5}) || err != nil {
		t.Errorf("left: %v, %v", numbers, err)
	}
}

// TestBrokenStates verifies that each error of OpenCurrent is one line that names the file and
// suggests a fix.
func TestBrokenStates(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(s generation.Store) error
		says  string
	}{
		{"nothing", func(s generation.Store) error { return s.Deactivate() }, "current does not exist, so this node has no generation (regcred install creates one)"},
		{"to nothing", func(s generation.Store) error { return s.Activate(7) }, "current points to generation 7, which cannot be opened: no such file or directory; regcred status lists the generations"},
		{"elsewhere", func(s generation.Store) error { return s.FS.Symlink("/etc", s.Path("current")) }, `current points to "/etc", which is not a regcred generation`},
		{"no link", func(s generation.Store) error {
			return errors.Join(s.Deactivate(), os.Mkdir(s.Path("current"), 0o700))
		}, "current is not a symbolic link: remove it, then run regcred rollback N"},
		{"no manifest", func(s generation.Store) error { return s.FS.Remove(s.GenerationPath(1, "manifest.json")) }, "this generation is damaged"},
		{"half a manifest", func(s generation.Store) error {
			return os.WriteFile(s.GenerationPath(1, "manifest.json"), []byte(`{"schemaVersion":1,`), 0o600)
		}, "manifest.json is damaged: unexpected end of JSON input; regcred rollback N switches to another generation"},
		{"no manifest at all", func(s generation.Store) error {
			return os.WriteFile(s.GenerationPath(1, "manifest.json"), []byte("null"), 0o600)
		}, "manifest.json is damaged: schemaVersion is missing; regcred rollback N"},
		{"later manifest", func(s generation.Store) error {
			return os.WriteFile(s.GenerationPath(1, "manifest.json"), []byte(`{"schemaVersion":2,"host":7}`), 0o600)
		}, "has schemaVersion 2, but this regcred release supports only schemaVersion 1 to 1"},
		{"no configuration", func(s generation.Store) error {
			return s.FS.RemoveAll(s.GenerationPath(1, generation.ConfigFilePath("")))
		}, "this generation is damaged"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore(t)
			must.Do(t, errors.Join(s.Activate(createGeneration(t, s, 0).Number), tt.spoil(s)))
			_, err := generation.OpenCurrent(s.Dir)
			if err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %q", err, tt.says)
			}
		})
	}
}

// TestCreateBroken verifies that a generation is not visible if any step of Create fails, and
// that the next attempt creates it.
func TestCreateBroken(t *testing.T) {
	s := newStore(t)
	createGeneration(t, s, 0)
	broken, failed := errors.New("broken"), 0
	for fail := 1; ; fail++ {
		step := 0
		s.FS = inroot.FS{BeforeStep: func(string, string) error {
			if step++; step == fail {
				return broken
			}
			return nil
		}}
		m := &generation.Manifest{}
		err := s.Create(t.Context(), m, []generation.SourceFile{generation.SourceFileFromBytes(generation.ConfigFilePath("a.json"), 0o600, []byte("{}"))}, nil)
		if err == nil {
			if m.Number != 2 {
				t.Errorf("made generation %d", m.Number)
			}
			break
		}
		failed++
		if numbers, listErr := s.ListNumbers(); !errors.Is(err, broken) || !slices.Equal(numbers, []int{1}) || listErr != nil {
			t.Errorf("step %d: %v; there is %v, %v", fail, err, numbers, listErr)
		}
	}
	if failed < 10 {
		t.Errorf("only %d steps", failed)
	}
}

// TestCopyChanges verifies that Create fails if a source file has changed since its hash was
// computed.
func TestCopyChanges(t *testing.T) {
	s := newStore(t)
	name := filepath.Join(t.TempDir(), "plugin")
	must.Do(t, os.WriteFile(name, []byte("looked at"), 0o755))
	c, err := generation.SourceFileFromPath(t.Context(), generation.ExecutablePath("plugin"), 0o755, name)
	if err != nil {
		t.Fatal(err)
	}
	must.Do(t, s.Create(t.Context(), &generation.Manifest{}, []generation.SourceFile{c}, nil))
	must.Do(t, os.WriteFile(name, []byte("another"), 0o755))
	err = s.Create(t.Context(), &generation.Manifest{}, []generation.SourceFile{c}, nil)
	if numbers, listErr := s.ListNumbers(); err == nil || err.Error() != "create generation 2: bin/plugin changed during the install: run regcred install again" || len(numbers) != 1 || listErr != nil {
		t.Errorf("got %v; there is %v, %v", err, numbers, listErr)
	}
}

// TestChanged verifies that ModifiedFiles returns files whose content or mode was changed.
func TestChanged(t *testing.T) {
	s := newStore(t)
	m := createGeneration(t, s, 0)
	if list := s.ModifiedFiles(t.Context(), m); list != nil {
		t.Errorf("changed: %v", list)
	}
	plugin := s.GenerationPath(1, generation.ExecutablePath("plugin-1"))
	must.Do(t, os.WriteFile(plugin, []byte("another"), 0o755))
	must.Do(t, os.Chmod(s.GenerationPath(1, generation.DispatcherName), 0o777))
	if list, want := s.ModifiedFiles(t.Context(), m), []string{plugin, s.GenerationPath(1, generation.DispatcherName)}; !slices.Equal(list, want) {
		t.Errorf("changed: %v, want %v", list, want)
	}
}

// TestSecretsStayPrivate verifies that other users cannot read a generation's directory,
// because the configuration may contain secrets.
func TestSecretsStayPrivate(t *testing.T) {
	s := newStore(t)
	createGeneration(t, s, 0)
	info, err := os.Stat(s.GenerationPath(1))
	if err != nil || info.Mode() != fs.ModeDir|0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
