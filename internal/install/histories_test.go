// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package install_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/node"
)

// historyCount is the number of random sequences for each node.
var historyCount = flag.Int("histories", 1, "number of random sequences of changes for each kind of node in TestHistories")

// TestHistories runs random sequences of installs, rollbacks, uninstalls, interruptions, and
// changes that the node's vendor makes to its own flags, files and plugins. After each change of
// regcred, it verifies what the kubelet does at its next start:
//   - After an install, the kubelet starts, and runs the providers of the vendor and of regcred.
//   - A change that fails or is interrupted does not keep a kubelet from starting, and does not
//     keep it from running a provider of the vendor that it ran before.
//   - After an uninstall, the vendor's file has the content that the vendor has last written, and
//     no file of regcred is left.
func TestHistories(t *testing.T) {
	const steps = 10
	count := map[string]int{}
	nodes := append(layouts(), treeLayouts(t)...)
	for _, l := range nodes {
		for seed := range uint64(*historyCount) {
			h := newHistory(t, l, seed)
			if h == nil {
				count["nodes that regcred does not change"]++
				break
			}
			for range steps {
				count[h.randomStep()]++
				if t.Failed() {
					t.Fatalf("%s, seed %d:\n%s", l.name, seed, strings.Join(h.log, "\n"))
				}
			}
		}
	}
	t.Logf("%d nodes, %d sequences of %d steps each: %v", len(nodes), *historyCount, steps, count)
}

// treeLayouts returns the node trees of package node in which the kubelet has a usable
// configuration method.
func treeLayouts(t *testing.T) (list []layout) {
	files := must.Get(filepath.Glob("../node/testdata/nodes/*.txtar"))(t)
	for _, file := range files {
		archive := must.Get(txtar.ParseFile(file))(t)
		list = append(list, layout{name: strings.TrimSuffix(filepath.Base(file), ".txtar"), version: "1.36.3", tree: archive})
	}
	if len(list) < 50 {
		t.Fatalf("found only %d trees", len(list))
	}
	return list
}

// writeTree writes the files of a tree. It returns an error for files of special kinds, which
// package node tests.
func writeTree(root string, archive *txtar.Archive) error {
	for _, f := range archive.Files {
		kind, name, ok := strings.Cut(f.Name, " /")
		if !ok {
			kind, name = "file", f.Name
		}
		at := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		switch kind {
		case "file":
			err = errors.Join(err, os.WriteFile(at, f.Data, 0o644))
		case "exec":
			err = errors.Join(err, os.WriteFile(at, f.Data, 0o755))
		case "dir":
			err = errors.Join(err, os.MkdirAll(at, 0o755))
		case "link":
			target := strings.TrimSpace(string(f.Data))
			if path.IsAbs(target) && target != "/dev/null" {
				return fmt.Errorf("%s: the test would write through a link to %s", name, target)
			}
			err = errors.Join(err, os.Symlink(target, at))
		default:
			return fmt.Errorf("%s: a file of kind %q", name, kind)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// history is a node on which regcred and the vendor make changes in turn.
type history struct {
	*layoutNode
	rnd *rand.Rand
	log []string

	command string // the vendor's start command, or "" if its flags are not changed
	unit    string
	config  string // path of the vendor's configuration file, or "" if its kubelet has no providers
	binDir  string
	text    string // content of the configuration file, as the vendor has last written it
	names   []string
	next    int // number of the vendor's next provider
}

// newHistory returns a node, or nil if regcred does not change this kind of node.
func newHistory(t *testing.T, l layout, seed uint64) *history {
	w := &fakeNode{dir: t.TempDir(), layout: l, Boot: "boot", PID: 100}
	must.Do(t, os.MkdirAll(w.rootDir(), 0o755))
	if l.tree == nil {
		l.writeFiles(t, w.rootDir())
	} else if err := writeTree(w.rootDir(), l.tree); err != nil {
		return nil
	}
	must.Do(t, os.MkdirAll(filepath.Join(w.rootDir(), "var/lib"), 0o755))
	must.Do(t, w.saveState())
	h := &history{layoutNode: &layoutNode{w, t, writeConfigs(t)}, rnd: rand.New(rand.NewPCG(seed, 28))}
	s := must.Get(w.readSetup(t.Context()))(t)
	if s.Refusal != nil || s.Vendor.BinDir.Type == node.TypeFile {
		return nil
	}
	if s.Unit != nil && s.Rancher == nil && (path.Base(s.Unit.Exec.File) < "89-" || path.Ext(s.Unit.Exec.File) == ".service") {
		h.command, h.unit = s.Unit.Exec.Text, s.Unit.Name
	}
	if s.Vendor.Config.IsSet() && s.Vendor.Config.Type != node.TypeAbsent {
		h.config, h.binDir = s.Vendor.Config.Path, s.Vendor.BinDir.Path
		if s.Vendor.Config.Type == node.TypeDirectory {
			must.Do(t, os.RemoveAll(filepath.Join(w.rootDir(), h.config)))
			h.config = path.Join(h.config, "10-vendor.yaml")
		}
		h.rewriteConfig()
	}
	if _, err := h.startedProviderNames(); err != nil {
		return nil // the kubelet of this tree does not start
	}
	return h
}

// startedProviderNames returns the names of the providers that a kubelet has when it starts now.
func (h *history) startedProviderNames() ([]string, error) {
	f, err := h.reloadedFlags()
	if err != nil {
		return nil, err
	}
	return h.readProviderNames(f)
}

// rewriteConfig writes a new configuration with one provider.
func (h *history) rewriteConfig() {
	h.text, h.names = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n", nil
	block := h.newProvider()
	h.text += block
	h.writeFile(h.config, h.text)
}

// newProvider adds a provider with an executable, and returns its text.
func (h *history) newProvider() string {
	h.next++
	name := fmt.Sprintf("vendor-%d", h.next)
	h.names = append(h.names, name)
	h.writeFile(path.Join(h.binDir, name), "#!/bin/sh\n")
	must.Do(h.t, os.Chmod(filepath.Join(h.rootDir(), h.binDir, name), 0o755))
	return fmt.Sprintf("- name: %s\n  matchImages: [%q]\n  defaultCacheDuration: 1m\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n", name, name+".example")
}

// randomStep makes one random change and returns its kind.
func (h *history) randomStep() string {
	vendor := []struct {
		name string
		can  bool
		do   func()
	}{
		{"vendor adds a provider", h.config != "", func() {
			block := h.newProvider()
			h.text += block
			h.writeFile(h.config, h.readFile(h.config)+block)
		}},
		{"vendor writes its file again", h.config != "", h.rewriteConfig},
		{"user adds a comment", h.config != "", func() {
			h.text += "# by hand\n"
			h.writeFile(h.config, h.readFile(h.config)+"# by hand\n")
		}},
		{"vendor moves its file", h.config != "" && h.command != "", func() {
			must.Do(h.t, os.Remove(filepath.Join(h.rootDir(), h.config)))
			h.config = fmt.Sprintf("/etc/vendor-%d/config.yaml", h.next)
			h.rewriteConfig()
			h.setFlags()
		}},
		{"vendor moves its plugins", h.config != "" && h.command != "", func() {
			h.binDir = fmt.Sprintf("/opt/vendor-%d", h.next)
			h.rewriteConfig()
			h.setFlags()
		}},
		{"vendor sets up providers", h.config == "" && h.command != "", func() {
			h.config, h.binDir = "/etc/vendor/config.yaml", "/opt/vendor"
			h.rewriteConfig()
			h.setFlags()
		}},
	}
	if v := vendor[h.rnd.IntN(len(vendor))]; v.can && h.rnd.IntN(2) == 0 {
		h.logf("%s", v.name)
		v.do()
		return v.name
	}
	return h.changeWithInterruption([]string{"install a", "install b", "install c", "install b", "rollback 1", "uninstall"}[h.rnd.IntN(6)])
}

// setFlags makes a drop-in of the vendor set the flags.
func (h *history) setFlags() {
	h.writeFile("/etc/systemd/system/"+h.unit+".d/89-vendor.conf", fmt.Sprintf("[Service]\nExecStart=\nExecStart=%s \"--image-credential-provider-config=%s\" \"--image-credential-provider-bin-dir=%s\"\n", h.command, h.config, h.binDir))
}

func (h *history) logf(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

// changeWithInterruption makes a change of regcred, which may be interrupted at a random step.
func (h *history) changeWithInterruption(do string) string {
	before, errBefore := h.startedProviderNames()
	fails := -1
	if h.rnd.IntN(4) == 0 {
		fails = h.rnd.IntN(40)
	}
	step := 0
	err := h.runWith(h.configDir, do, func(string, string) error {
		if step++; fails >= 0 && step > fails {
			return syscall.EIO
		}
		return nil
	})
	h.logf("%s, fails after step %d: %v", do, fails, err)
	after, errAfter := h.startedProviderNames()
	wanted := slices.DeleteFunc(slices.Clone(before), func(name string) bool { return !slices.Contains(h.names, name) })
	result := do + " succeeds"
	switch {
	case err != nil:
		result = do + " fails"
	case do == "uninstall":
		h.checkUninstalled()
		return result
	case strings.HasPrefix(do, "install "):
		errBefore, wanted = nil, h.names
		m := must.Get(h.store().Manifest(h.t.Context(), must.Get(h.store().Current())(h.t)))(h.t)
		for _, e := range m.Entries {
			wanted = append(slices.Clip(wanted), e.Name)
		}
	}
	if errBefore == nil && errAfter != nil {
		h.t.Errorf("after %s, the kubelet does not start: %v", do, errAfter)
	}
	for _, name := range wanted {
		if errAfter == nil && !slices.Contains(after, name) {
			h.t.Errorf("after %s, the kubelet has the providers %v, without %s", do, after, name)
		}
	}
	return result
}

// checkUninstalled verifies that nothing of regcred is left.
func (h *history) checkUninstalled() {
	h.t.Helper()
	if h.config != "" {
		if got := h.readFile(h.config); got != h.text {
			h.t.Errorf("after an uninstall, the vendor's file is\n%s\nwant\n%s", got, h.text)
		}
	}
	for name, text := range readTree(h.t, h.rootDir()) {
		if !strings.HasSuffix(name, ".regcred-saved") && (strings.Contains(name, "regcred") || strings.Contains(text, "regcred") && h.layout.tree == nil) {
			h.t.Errorf("after an uninstall, %s is left: %s", name, text)
		}
	}
	if names, err := h.startedProviderNames(); err != nil || len(names) < len(h.names) {
		h.t.Errorf("after an uninstall, the kubelet has the providers %v, want %v: %v", names, h.names, err)
	}
	if s := h.status(); s.Current != nil || len(s.Generations) > 0 {
		h.t.Errorf("status after an uninstall: %+v", s)
	}
}
