// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package install_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/must"
)

// replaceInFile replaces text in a file of the node. It fails if the file does not contain old.
func (c *testNode) replaceInFile(name, old, new string) error {
	name = filepath.Join(c.rootDir(), name)
	data, err := os.ReadFile(name)
	if err == nil && !strings.Contains(string(data), old) {
		err = errors.New(name + " has no " + old)
	}
	return errors.Join(err, os.WriteFile(name, []byte(strings.Replace(string(data), old, new, 1)), 0o644))
}

const another = `{"name": "another", "matchImages": ["another.example"], "defaultCacheDuration": "1m", "apiVersion": "credentialprovider.kubelet.k8s.io/v1"}`

// TestChangedByOthers verifies that changes by other programs between install and uninstall are
// reported in one line and kept.
func TestChangedByOthers(t *testing.T) {
	const (
		json, yaml, dropIn = "etc/kubernetes/cred.json", "etc/kubernetes/cred.yaml", "etc/systemd/system/kubelet.service.d/90-regcred.conf"
		link               = "opt/plugins/regcred-credential-provider"
		gen                = "var/lib/regcred/generations"
	)
	overwrite := func(name, text string) func(*testNode) error {
		return func(c *testNode) error { return os.WriteFile(filepath.Join(c.rootDir(), name), []byte(text), 0o644) }
	}
	remove := func(name string) func(*testNode) error {
		return func(c *testNode) error { return os.RemoveAll(filepath.Join(c.rootDir(), name)) }
	}
	for _, tt := range []struct {
		name, layout string
		change       func(c *testNode) error
		status       string // part of a problem that status reports; "" if none
		install      string // part of the error of the next install; "" if none
		rollback     string // part of the error of rollback 1; "" if none
		uninstall    string // part of the error of uninstall; "" if none
		says         string // part of uninstall's progress messages if it succeeds
		left         fileTree   // files that remain changed after uninstall; "-" marks a removed file
	}{
		{name: "another provider, JSON", layout: "json", change: func(c *testNode) error { return c.replaceInFile(json, `"providers": [`, `"providers": [`+another+",") },
			says: "cred.json has been changed since the install, so only regcred's entries are removed", left: fileTree{"/" + json: strings.Replace(foreignJSON, `"providers": [`, `"providers": [`+another+",", 1)}},
		{name: "another provider behind ours", layout: "json", change: func(c *testNode) error { return c.replaceInFile(json, "\n  ]", ",\n"+another+"\n  ]") },
			says: "cred.json has been changed since the install, so only regcred's entries are removed", left: fileTree{"/" + json: strings.Replace(foreignJSON, "\n  ]", ",\n"+another+"\n  ]", 1)}},
		{name: "another provider, YAML", layout: "yaml", change: func(c *testNode) error { return c.replaceInFile(yaml, "providers:\n", "providers:\n- "+another+"\n") },
			says: "cred.yaml has been changed since the install, so only regcred's entries are removed", left: fileTree{"/" + yaml: strings.Replace(foreignYAML, "providers:\n", "providers:\n- "+another+"\n", 1)}},
		{name: "our entry gone", layout: "json", change: overwrite(json, foreignJSON), status: "its regcred entries differ from those of generation 1"},
		{name: "our entry changed", layout: "json", change: func(c *testNode) error { return c.replaceInFile(json, `"registry.example"`, `"other.example"`) },
			status: "its regcred entries differ from those of generation 1", says: "only regcred's entries are removed"},
		{name: "configuration spoilt", layout: "json", change: overwrite(json, "{"), status: "cred.json", install: "cred.json", rollback: "cred.json", uninstall: "cred.json"},
		{name: "drop-in edited", layout: "kubeadm", change: func(c *testNode) error { return c.replaceInFile(dropIn, "[Service]", "[Service]\nNice=1") },
			status: "90-regcred.conf: changed since it was installed", install: "90-regcred.conf already exists and differs from regcred's file", rollback: "90-regcred.conf already exists and differs from regcred's file", says: "kept as 90-regcred.conf.regcred-saved",
			left: fileTree{"/etc/systemd/system/kubelet.service.d": "", "/" + dropIn + ".regcred-saved": ""}},
		{name: "drop-in gone", layout: "kubeadm", change: remove(dropIn), status: "90-regcred.conf: missing"},
		{name: "link replaced", layout: "json", change: func(c *testNode) error { return errors.Join(remove(link)(c), overwrite(link, "#!/bin/sh\n")(c)) },
			status: "no longer a link to", install: "already exists and does not belong to regcred", rollback: "already exists and does not belong to regcred", says: "regcred-credential-provider is kept, because it no longer links", left: fileTree{"/" + link: "#!/bin/sh\n"}},
		{name: "link to nothing", layout: "json", change: func(c *testNode) error {
			return errors.Join(remove(link)(c), os.Symlink("/nowhere", filepath.Join(c.rootDir(), link)))
		},
			status: "no longer a link to", install: "already exists and does not belong to regcred", rollback: "already exists and does not belong to regcred", says: "regcred-credential-provider is kept, because it no longer links", left: fileTree{"/" + link: "/nowhere"}},
		{name: "link gone", layout: "json", change: remove(link), status: "regcred-credential-provider: missing"},
		{name: "dispatcher gone", layout: "json", change: remove("var/lib/regcred/" + generation.DispatcherName), status: "dangling symlink to"},
		{name: "plugin replaced", layout: "json", change: overwrite(gen+"/1/bin/alpha", "#!/bin/sh\n# mine\n"), status: "alpha has been changed since it was installed", rollback: "generation 1 was modified after it was created"},
		{name: "generation deleted", layout: "json", change: remove(gen + "/1"), status: "the current generation is damaged", install: "the current generation is damaged",
			rollback: "there is no generation on this node"},
		{name: "current to nothing", layout: "json", change: func(c *testNode) error { return c.store().Activate(7) }, status: "the current generation is damaged", install: "the current generation is damaged"},
		{name: "current elsewhere", layout: "json", change: func(c *testNode) error { return c.fs().Symlink("/etc", stateDir+"/current") }, status: "which is not a regcred generation", install: "which is not a regcred generation"},
		{name: "current gone", layout: "json", change: remove("var/lib/regcred/current"), status: "does not exist, so no generation is current", install: "does not exist, so no generation is current"},
		{name: "manifest cut", layout: "json", change: overwrite(gen+"/1/manifest.json", `{"schemaVersion":1,`), status: "manifest.json is damaged", install: "manifest.json is damaged",
			rollback: "manifest.json is damaged"},
		{name: "later manifest", layout: "json", change: overwrite(gen+"/1/manifest.json", `{"schemaVersion":2}`), status: "has schemaVersion 2", install: "has schemaVersion 2",
			rollback: "has schemaVersion 2", uninstall: "has schemaVersion 2"},
		{name: "journal cut", layout: "json", change: overwrite("var/lib/regcred/journal.json", `{"action":`), status: "journal.json is damaged", install: "journal.json is damaged",
			rollback: "journal.json is damaged"},
		{name: "originals cut", layout: "json", change: overwrite("var/lib/regcred/originals.json", `{"a":`), says: "only regcred's entries are removed"},
		{name: "originals gone", layout: "json", change: remove("var/lib/regcred/originals.json")},
		{name: "something in our directory", layout: "kubeadm", change: overwrite("etc/systemd/system/kubelet.service.d/50-mine.conf", "[Service]\n"), says: "kubelet.service.d is kept, because it has content that regcred did not create",
			left: fileTree{"/etc/systemd/system/kubelet.service.d": "", "/etc/systemd/system/kubelet.service.d/50-mine.conf": "[Service]\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newNodeAfter(t, findLayout(t, tt.layout))
			pristine := readTree(t, c.rootDir())
			must.Do(t, c.makeChange(t.Context(), "install a"))
			must.Do(t, errors.Join(tt.change(c), c.saveState()))
			spoilt := readTree(t, c.rootDir())
			c.newInstaller(t)
			if s, err := c.Status(t.Context()); err != nil || !strings.Contains(strings.Join(s.Problems, "\n"), tt.status) || (len(s.Problems) > 0) != (tt.status != "") {
				t.Errorf("status: %q, %v; want %q", s.Problems, err, tt.status)
			}
			for change, says := range map[string]string{"install c": tt.install, "rollback 1": tt.rollback} {
				other := &testNode{fakeNode: (&changeFixture{t: t, layout: c.layout, base: c.dir}).copyNode(), configDir: c.configDir}
				other.newInstaller(t)
				err := other.makeChange(t.Context(), change)
				if (err != nil) != (says != "") || err != nil && (!strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n")) {
					t.Errorf("%s: %v, want %q", change, err, says)
				}
				if diff := spoilt.differences(readTree(t, other.rootDir())); says != "" && diff != "" {
					t.Errorf("%s, which failed: %s", change, diff)
				}
			}
			var said []string
			c.Progress = func(text string) { said = append(said, text) }
			err := c.makeChange(t.Context(), "uninstall")
			if (err != nil) != (tt.uninstall != "") || err != nil && (!strings.Contains(err.Error(), tt.uninstall) || strings.Contains(err.Error(), "\n")) {
				t.Fatalf("uninstall: %v, want %q", err, tt.uninstall)
			}
			if now := readTree(t, c.rootDir()); err != nil {
				if diff := spoilt.withoutPaths(recordFiles()...).differences(now.withoutPaths(recordFiles()...)); diff != "" {
					t.Errorf("uninstall, which failed: %s", diff)
				}
				return
			} else {
				checkOnlyLeft(t, pristine, now, tt.left)
			}
			if !strings.Contains(strings.Join(said, "\n"), tt.says) {
				t.Errorf("said %q, want %q", said, tt.says)
			}
		})
	}
}

// checkOnlyLeft fails the test unless the node is in its original state except for the files in
// left.
func checkOnlyLeft(t *testing.T, pristine, now, left fileTree) {
	t.Helper()
	var names []string
	for name, text := range left {
		names = append(names, name)
		_, content, _ := strings.Cut(strings.SplitN(now[name]+"   ", " ", 2)[1], " ")
		if _, there := now[name]; there != (text != "-") || text != "-" && text != "" && strings.TrimRight(content, " ") != text {
			t.Errorf("%s: %q, want %q", name, now[name], text)
		}
	}
	if diff := pristine.withoutPaths(names...).differences(now.withoutPaths(names...)); diff != "" {
		t.Errorf("left: %s", diff)
	}
}
