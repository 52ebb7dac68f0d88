// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package install_test

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/install"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/node"
)

// fileDamages returns the ways in which a file can be damaged. Without -matrix, some are left out.
func fileDamages() map[string]func(name string) error {
	overwrite := func(text string) func(string) error {
		return func(name string) error { return os.WriteFile(name, []byte(text), 0o600) }
	}
	list := map[string]func(name string) error{
		"missing": func(string) error { return nil },
		"empty":   overwrite(""), "cut": overwrite(`{"a`), "{}": overwrite("{}"), "null": overwrite("null"),
		"FIFO": func(name string) error { return syscall.Mkfifo(name, 0o600) },
		"directory": func(name string) error {
			return errors.Join(os.Mkdir(name, 0o755), os.WriteFile(name+"/x", nil, 0o600))
		},
		"dangling":  func(name string) error { return os.Symlink("/nowhere", name) },
		"too large": func(name string) error { return errors.Join(overwrite("{")(name), os.Truncate(name, 17<<20)) },
	}
	if !*fullMatrix {
		maps.DeleteFunc(list, func(how string, _ func(string) error) bool {
			return slices.Contains([]string{"empty", "null", "dangling", "{}"}, how)
		})
	}
	return list
}

// runHint runs the command that an error or a problem names. It returns its output or error.
func (c *testNode) runHint(t *testing.T, hint string) error {
	t.Helper()
	switch rollback, remove := regexp.MustCompile(`regcred rollback (\d+)`).FindStringSubmatch(hint), regexp.MustCompile(`(?:run )?(rm (?:-rf )?\S+)`).FindStringSubmatch(hint); {
	case strings.Contains(hint, "regcred uninstall"):
		if err := c.makeChange(t.Context(), "uninstall"); err != nil {
			return err
		}
		if !strings.Contains(hint, "regcred install") {
			return nil
		}
		c.newInstaller(t)
		return c.makeChange(t.Context(), "install a")
	case rollback != nil:
		n := int(rollback[1][0] - '0')
		_, err := c.Rollback(t.Context(), n, installOptions())
		return err
	case remove != nil:
		out, err := exec.Command("sh", "-c", remove[1]).CombinedOutput()
		if err != nil {
			return errors.New(string(out))
		}
		c.newInstaller(t)
		return c.makeChange(t.Context(), "install a")
	case strings.HasPrefix(hint, "move "):
		return nil // tested in TestChangedByOthers
	case strings.Contains(hint, "regcred install"):
		return c.makeChange(t.Context(), "install a")
	}
	return errors.New("the hint names no command")
}

// TestDamagedState damages each file of an installation in each way. Each command must then
// succeed, or fail with a hint that names a command that works. An uninstall must always leave
// nothing of regcred.
func TestDamagedState(t *testing.T) {
	const (
		dropIn = "etc/systemd/system/kubelet.service.d/90-regcred.conf"
		shared = "etc/kubernetes/cred.json"
		state  = "var/lib/regcred/"
	)
	wishes := writeConfigs(t)
	for _, base := range []struct {
		layout string
		done   []string
		files  []string
	}{
		{"kubeadm", []string{"install a"}, []string{state + "generations/1/manifest.json", state + "journal.json", state + "generations", state + "generations/1", state + "current", state + "regcred-credential-provider", dropIn}},
		{"json", []string{"install a", "install c"}, []string{state + "generations/2/manifest.json", state + "applied.json", state + "originals.json", state + "current", state + "reserve", shared}},
	} {
		w := newFakeNode(t, findLayout(t, base.layout))
		pristine := readTree(t, w.rootDir())
		for _, change := range base.done {
			must.Do(t, w.run(wishes, change))
		}
		w.Running = nil // a restart with a damaged vendor file is another case
		must.Do(t, w.saveState())
		for _, file := range base.files {
			for how, damage := range fileDamages() {
				for _, change := range []string{"install a", "rollback 1", "uninstall"} {
					t.Run(base.layout+"/"+filepath.Base(file)+"/"+how+"/"+change, func(t *testing.T) {
						t.Parallel()
						c := &testNode{fakeNode: (&changeFixture{t: t, layout: w.layout, base: w.dir}).copyNode(), configDir: wishes}
						defer os.RemoveAll(c.dir)
						name := filepath.Join(c.rootDir(), file)
						must.Do(t, errors.Join(os.RemoveAll(name), damage(name)))
						c.newInstaller(t)
						if _, err := c.Status(t.Context()); err != nil {
							t.Errorf("status: %v", err)
						}
						err := c.makeChange(t.Context(), change)
						if hint, ok := errors.AsType[*node.HintError](err); ok {
							c.newInstaller(t)
							if hintErr := c.runHint(t, hint.Hint); hintErr != nil {
								t.Errorf("%s: %v; its hint %q: %v", change, err, hint.Hint, hintErr)
							}
						} else if err != nil {
							t.Errorf("%s: %v", change, err)
						}
						c.newInstaller(t)
						// The kubelet of a node whose vendor's file is gone does not start after an uninstall.
						if err := c.Uninstall(t.Context(), install.Options{Restart: true, Force: true}); err != nil {
							t.Errorf("uninstall after that: %v", err)
						}
						c.isClean(t, pristine, "/"+file)
					})
				}
			}
		}
	}
}

// isClean fails the test if something of regcred is left on the node. It ignores the damaged
// file.
func (c *testNode) isClean(t *testing.T, pristine fileTree, damaged string) {
	t.Helper()
	now := readTree(t, c.rootDir())
	for name, text := range now {
		_, was := pristine[name]
		if kept := slices.Contains(c.Left, c.HostPathOf(name)) || strings.HasPrefix(name, damaged); !was && !kept && !strings.HasSuffix(name, "kubelet.service.d") {
			t.Errorf("left: %s", name)
		}
		if strings.Contains(text, "regcred") && !strings.HasPrefix(name, damaged) && !strings.Contains(name, ".regcred-saved") {
			t.Errorf("%s still names regcred: %q", name, text)
		}
	}
	for name := range pristine {
		if _, ok := now[name]; !ok && name != damaged {
			t.Errorf("removed: %s", name)
		}
	}
}

// HostPathOf returns the path on this machine of a file on the node.
func (c *testNode) HostPathOf(name string) string { return filepath.Join(c.rootDir(), name) }

// TestUnreadableSharedFile verifies that regcred's entries are removed from a file that the
// kubelet cannot read, and that nothing else in the file changes.
func TestUnreadableSharedFile(t *testing.T) {
	for how, edit := range map[string]func(text string) string{
		"unknown field": func(text string) string {
			return strings.Replace(text, `"name": "foreign",`, `"name": "foreign", "colour": "red",`, 1)
		},
		"duplicate": func(text string) string {
			return strings.Replace(text, `"name": "foreign"`, `"name": "regcred-credential-provider"`, 1)
		},
		"other version": func(text string) string {
			return strings.Replace(text, "kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v7", 1)
		},
	} {
		t.Run(how, func(t *testing.T) {
			o := newLayoutNode(t, "json")
			o.t = t
			o.runChanges("install a")
			o.Running = nil
			must.Do(t, o.saveState())
			o.writeFile(configPath, edit(o.readFile(configPath)))
			want := edit(foreignJSON)
			if how == "duplicate" {
				want = ""
			}
			o.runChanges("uninstall")
			if got := o.readFile(configPath); want != "" && got != want || strings.Contains(got, "regcred") {
				t.Errorf("left %s, want %s", got, want)
			}
		})
	}
}

// TestRestartWithUnreadableFile verifies that an uninstall which must restart the kubelet changes
// nothing if the kubelet would not start.
func TestRestartWithUnreadableFile(t *testing.T) {
	c := newNodeAfter(t, findLayout(t, "json"), "install a")
	must.Do(t, os.WriteFile(filepath.Join(c.rootDir(), configPath), nil, 0o600))
	before := readTree(t, c.rootDir())
	if err := c.makeChange(t.Context(), "uninstall"); err == nil || !strings.Contains(err.Error(), "but would not start: ") {
		t.Errorf("got %v", err)
	}
	if diff := before.differences(readTree(t, c.rootDir())); diff != "" {
		t.Errorf("changed: %s", diff)
	}
}

// TestManyEntriesWithoutState verifies that regcred recognizes any number of its entries after
// the state directory was removed.
func TestManyEntriesWithoutState(t *testing.T) {
	o := newLayoutNode(t, "read-only bin dir")
	o.runChanges("install a")
	var more strings.Builder
	for _, n := range []string{"-2", "-33", "-34", "-200"} {
		more.WriteString(`{"name": "regcred-credential-provider` + n + `", "matchImages": ["a.example"], "defaultCacheDuration": "0s", "apiVersion": "credentialprovider.kubelet.k8s.io/v1"},`)
	}
	o.writeFile(configPath, strings.Replace(o.readFile(configPath), `"providers": [`, `"providers": [`+more.String(), 1))
	must.Do(t, os.RemoveAll(filepath.Join(o.rootDir(), stateDir)))
	o.runChanges("install a", "uninstall")
	if text := o.readFile(configPath); strings.Contains(text, "regcred") {
		t.Errorf("left: %s", text)
	}
}

// TestMovedGenerations verifies that an uninstall also removes generations that were moved and
// linked, because they may contain secrets, and that it removes nothing else there.
func TestMovedGenerations(t *testing.T) {
	o := newLayoutNode(t, "kubeadm")
	o.runChanges("install a")
	moveAndLink(stateDir+"/generations", "/srv/generations")(t, o.rootDir())
	o.writeFile("srv/generations/precious/data", "x")
	in := o.installerIn(stateDir)
	must.Do(t, in.Uninstall(t.Context(), installOptions()))
	list := must.Get(o.fs().ReadDir("/srv/generations"))(t)
	if want := filepath.Join(o.rootDir(), "srv/generations"); len(list) != 1 || list[0].Name() != "precious" || !slices.Contains(in.Left, want) || o.fs().Exists(stateDir) {
		t.Errorf("left %v, reported %q", list, in.Left)
	}
}

// TestMaskedDropIn verifies the hint for a drop-in that is a symlink to /dev/null.
func TestMaskedDropIn(t *testing.T) {
	o := newLayoutNode(t, "kubeadm")
	createSymlink("etc/systemd/system/kubelet.service.d/90-regcred.conf", "/dev/null")(t, o.rootDir())
	err := o.run(o.configDir, "install a")
	hint, ok := errors.AsType[*node.HintError](err)
	if !ok || !strings.Contains(err.Error(), "90-regcred.conf is masked: it is a symlink to /dev/null") {
		t.Fatalf("got %v", err)
	}
	must.Do(t, exec.Command("sh", "-c", hint.Hint).Run())
	o.runChanges("install a", "uninstall")
}

// TestBytesOfTheCommand verifies that bytes of the unit's command that are not UTF-8 are kept by
// each change.
func TestBytesOfTheCommand(t *testing.T) {
	o := newLayoutNode(t, "kubeadm")
	o.writeFile(kubeadmTen, strings.Replace(kubeadmUnit, "/usr/bin/kubelet $", "/usr/bin/kubelet --node-labels=city=M\xfcnchen $", 1))
	for _, change := range []string{"install a", "install b", "rollback 1", "install b"} {
		o.runChanges(change)
		if text := o.readFile("etc/systemd/system/kubelet.service.d/90-regcred.conf"); !strings.Contains(text, "M\xfcnchen") {
			t.Errorf("%s: %q", change, text)
		}
		if s := o.status(); len(s.Problems) > 0 {
			t.Errorf("%s: status: %q", change, s.Problems)
		}
	}
	in := o.installerIn(stateDir)
	must.Do(t, in.Uninstall(t.Context(), installOptions()))
	if len(in.Left) > 0 {
		t.Errorf("left: %q", in.Left)
	}
	_, err := o.installerIn("/var/lib/re\xffq").Install(t.Context(), desiredState(o.configDir, "a"), installOptions())
	if err == nil || !strings.Contains(err.Error(), "is not UTF-8") {
		t.Errorf("state directory: %v", err)
	}
}

// TestEditsAreSaved verifies that each edited drop-in is saved under another name, and that a
// rollback changes no edited file.
func TestEditsAreSaved(t *testing.T) {
	const dropIn = "etc/systemd/system/kubelet.service.d/90-regcred.conf"
	o := newLayoutNode(t, "kubeadm")
	must.Do(t, os.MkdirAll(filepath.Join(o.rootDir(), dropIn+".regcred-saved.2"), 0o755)) // names that exist are skipped
	for i, want := range []string{".regcred-saved", ".regcred-saved.3", ".regcred-saved.4"} {
		o.runChanges("install a", "install c")
		edited := o.readFile(dropIn) + "# edit " + want
		o.writeFile(dropIn, edited)
		if err := o.run(o.configDir, "rollback 1"); err == nil || !strings.Contains(err.Error(), "already exists and differs from regcred's file") || o.readFile(dropIn) != edited {
			t.Errorf("edit %d: rollback: %v", i, err)
		}
		in := o.installerIn(stateDir)
		must.Do(t, in.Uninstall(t.Context(), installOptions()))
		if name := filepath.Join(o.rootDir(), dropIn+want); !slices.Contains(in.Left, name) || o.readFile(dropIn+want) != edited {
			t.Errorf("edit %d: left %q, want %s", i, in.Left, name)
		}
	}
}

// TestStatusWithoutPrevious verifies that the status of a first generation suggests no rollback.
func TestStatusWithoutPrevious(t *testing.T) {
	o := newLayoutNode(t, "kubeadm")
	o.runChanges("install a")
	o.writeFile(stateDir+"/generations/1/config/a.yaml", "x")
	if s := o.status(); len(s.Problems) != 1 || !strings.HasSuffix(s.Problems[0], ": run regcred install") {
		t.Errorf("%q", s.Problems)
	}
}

// TestSharedFileAttributes verifies that an install and an uninstall keep the extended attributes
// of the node's file.
func TestSharedFileAttributes(t *testing.T) {
	o := newLayoutNode(t, "json")
	name := filepath.Join(o.rootDir(), configPath)
	if err := syscall.Setxattr(name, "user.origin", []byte("x"), 0); err != nil {
		t.Skip(err)
	}
	for _, change := range []string{"install a", "install b", "uninstall"} {
		o.runChanges(change)
		if attr := must.Get(o.fs().AttrOf("/" + configPath))(t); attr.Extended["user.origin"] != "x" {
			t.Errorf("%s: %v", change, attr.Extended)
		}
	}
	must.Do(t, os.Link(name, name+".other"))
	if err := o.run(o.configDir, "install a"); err == nil && o.readFile(configPath) != foreignJSON {
		t.Error("a file with hard links was replaced")
	}
}
