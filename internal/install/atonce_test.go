// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package install_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/must"
)

// TestConcurrentChanges runs several changes of a node concurrently. Each change must succeed
// or be rejected, and the node must stay consistent.
func TestConcurrentChanges(t *testing.T) {
	wishes := writeConfigs(t)
	s := &changeFixture{t: t, layout: findLayout(t, "json"), configDir: wishes}
	w := newFakeNode(t, s.layout)
	pristine := readTree(t, w.rootDir())
	w.Running = nil // a fake node does not support concurrent restarts
	must.Do(t, w.saveState())
	changes := []string{"install a", "install b", "install c", "rollback 1", "uninstall", "install b", "install a", "install c"}
	for round := range 4 {
		var all sync.WaitGroup
		for i, change := range changes {
			dir := filepath.Join(t.TempDir(), fmt.Sprint(round, i))
			all.Go(func() {
				// Each process has its own clock, but all change the same node.
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Error(err)
				}
				own := *w
				own.dir = dir
				if err := os.Symlink(w.rootDir(), own.rootDir()); err != nil {
					t.Error(err)
				}
				if err := own.saveState(); err != nil {
					t.Error(err)
				}
				other := &changeFixture{t: t, layout: s.layout, configDir: wishes, change: change}
				err := other.runKilled(&own, 0)
				if err == nil || !strings.Contains(err.Error(), "<nil>") && !strings.Contains(err.Error(), "there is no generation") {
					t.Errorf("%s: %v", change, err)
				}
			})
		}
		all.Wait()
		must.Get(w.checkKubelets())(t)
		if said := s.statusProblems(w); said != "" {
			t.Errorf("status: %s", said)
		}
	}
	must.Do(t, w.run(wishes, "uninstall"))
	if diff := pristine.differences(readTree(t, w.rootDir())); diff != "" {
		t.Error(diff)
	}
}

var killCount = flag.Int("flips", 60, "how many `changes` are made one after the other")

// TestKeptGenerations verifies that old generations are removed, except the current generation
// and the one before it.
func TestKeptGenerations(t *testing.T) {
	c := newNodeAfter(t, findLayout(t, "directory"), "install a")
	c.Running = nil
	for i := range *killCount {
		c.newInstaller(t)
		c.Keep = 3
		change := []string{"install a", "install c", "install c", "rollback", "install a"}[i%5]
		var err error
		if change == "rollback" {
			_, err = c.Rollback(t.Context(), 0, installOptions())
		} else {
			err = c.makeChange(t.Context(), change)
		}
		if err != nil {
			t.Fatal(i, change, err)
		}
		numbers, err := c.Store.ListNumbers()
		if err != nil || len(numbers) > c.Keep {
			t.Fatalf("%d, %s: %v are there, %d are kept; %v", i, change, numbers, c.Keep, err)
		}
		current := must.Get(c.Store.Current())(t)
		m, err := c.Store.Manifest(context.Background(), current)
		if err != nil || m.Previous != 0 && change != "rollback" && !slices.Contains(numbers, m.Previous) {
			t.Fatalf("%d, %s: %d is current, and %v are there; %v", i, change, current, numbers, err)
		}
	}
	if list, err := c.fs().ReadDir(listGenerations(c.Store)); err != nil || len(list) > 3 {
		t.Errorf("%v, %v", list, err)
	}
}

func listGenerations(s generation.Store) string { return s.Path("generations") }

// TestRollbackFromDamaged interrupts a rollback from a damaged generation at each step. A
// second rollback must then succeed.
func TestRollbackFromDamaged(t *testing.T) {
	base := newNodeAfter(t, findLayout(t, "json"), "install a", "install b")
	must.Do(t, os.WriteFile(filepath.Join(base.rootDir(), base.Store.GenerationPath(2, "manifest.json")), []byte("{"), 0o600))
	s := &changeFixture{t: t, layout: base.layout, change: "rollback 1", configDir: base.configDir, base: base.dir}
	count := 0
	if err := s.copyNode().runWith(s.configDir, s.change, func(string, string) error { count++; return nil }); err != nil || count == 0 {
		t.Fatal(count, err)
	}
	for step := 1; step <= count; step++ {
		for _, b := range []interruption{{"fails once", s.withFailingSteps(func(step, at int) bool { return step == at })}, {"fails from then on", s.withFailingSteps(func(step, at int) bool { return step >= at })}, {"killed", s.runKilled}} {
			w := s.copyNode()
			first := b.make(w, step)
			if err := w.run(s.configDir, s.change); err != nil {
				t.Errorf("step %d %s (%v): again: %v", step, b.how, first, err)
			}
			if names, err := w.checkKubelets(); err != nil || len(names) != 2 {
				t.Errorf("step %d %s (%v): %v, %v", step, b.how, first, names, err)
			}
		}
	}
}
