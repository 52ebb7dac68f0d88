// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package install_test

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/install"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testelf"
)

// refusalTest describes a node or a desired state that install rejects.
type refusalTest struct {
	name, layout string
	spoil        func(t *testing.T, root string) // changes the node before the install
	wish         func(t *testing.T, w *install.DesiredState)
	says         string // part of the error; "" if the install succeeds
}

func writeHostFile(name, text string) func(*testing.T, string) {
	return func(t *testing.T, root string) {
		t.Helper()
		name := filepath.Join(root, name)
		if err := errors.Join(os.RemoveAll(name), os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
}

func createSymlink(name, target string) func(*testing.T, string) {
	return func(t *testing.T, root string) {
		t.Helper()
		name := filepath.Join(root, name)
		must.Do(t, errors.Join(os.RemoveAll(name), os.MkdirAll(filepath.Dir(name), 0o755), os.Symlink(target, name)))
	}
}

// moveAndLink returns a function that moves a directory on the node and leaves a symlink in its
// place.
func moveAndLink(name, to string) func(*testing.T, string) {
	return func(t *testing.T, root string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Join(root, filepath.Dir(to)), 0o755), os.Rename(filepath.Join(root, name), filepath.Join(root, to)),
			os.Symlink(to, filepath.Join(root, name))); err != nil {
			t.Fatal(err)
		}
	}
}

const configPath = "etc/kubernetes/cred.json"

func refusalTests() []refusalTest {
	return []refusalTest{
		{name: "a file where a link goes", layout: "json", spoil: writeHostFile("opt/plugins/"+generation.DispatcherName, "#!/bin/sh\n"), says: "regcred-credential-provider already exists and does not belong to regcred"},
		{name: "a link where a link goes", layout: "json", spoil: createSymlink("opt/plugins/"+generation.DispatcherName, "foreign"), says: "regcred-credential-provider already exists and does not belong to regcred"},
		{name: "a directory where a link goes", layout: "json", spoil: writeHostFile("opt/plugins/"+generation.DispatcherName+"/x", ""), says: "regcred-credential-provider already exists and does not belong to regcred"},
		{name: "a drop-in of our name", layout: "kubeadm", spoil: writeHostFile("etc/systemd/system/kubelet.service.d/90-regcred.conf", "[Service]\nNice=1\n"), says: "90-regcred.conf already exists and differs from regcred's file"},
		{name: "a file of our name in a directory", layout: "directory", spoil: writeHostFile("etc/kubernetes/cred.d/90-regcred.json", foreignJSON), says: "90-regcred.json already exists and differs from regcred's file"},
		{name: "an entry of our name", layout: "json", spoil: writeHostFile(configPath, strings.ReplaceAll(foreignJSON, `"foreign"`, `"regcred-credential-provider"`)), says: "nothing was changed, because this entry"},
		{name: "the bin dir is a file", layout: "json", spoil: writeHostFile("opt/plugins", "x"), says: "/opt/plugins is not a directory"},
		{name: "the bin dir is a link to nothing", layout: "json", spoil: createSymlink("opt/plugins", "/nowhere"), says: "/opt/plugins: dangling symlink"},
		{name: "the configuration is a pipe", layout: "json", spoil: func(t *testing.T, root string) {
			name := filepath.Join(root, configPath)
			must.Do(t, errors.Join(os.Remove(name), syscall.Mkfifo(name, 0o600)))
		}, says: "neither a file nor a directory"},
		{name: "the configuration is a link to nothing", layout: "json", spoil: createSymlink(configPath, "/nowhere"), says: "cred.json: "},
		{name: "links in a circle", layout: "json", spoil: createSymlink(configPath, "cred.json"), says: "neither a file nor a directory"},
		{name: "the configuration is none", layout: "json", spoil: writeHostFile(configPath, "{"), says: "cred.json:1:1"},
		{name: "/etc/kubernetes is a link", layout: "json", spoil: moveAndLink("etc/kubernetes", "/srv/kubernetes")},
		{name: "the state directory is a file", layout: "json", spoil: writeHostFile("var/lib/regcred", "x"), says: "regcred is not a directory"},
		{name: "the state directory is a link to nothing", layout: "json", spoil: createSymlink("var/lib/regcred", "/nowhere"), says: "regcred: dangling symlink"},
		{name: "nothing to hold the state directory", layout: "json", spoil: func(t *testing.T, root string) {
			must.Do(t, os.Rename(filepath.Join(root, "var/lib"), filepath.Join(root, "var/kept")))
		}, says: "check the state directory"},
		{name: "invalid configuration", layout: "json", wish: func(t *testing.T, w *install.DesiredState) {
			w.Config = filepath.Join(t.TempDir(), "x.yaml")
			writeHostFile("x.yaml", strings.Replace(oneProvider, "matchImages", "matchimages", 1))(t, filepath.Dir(w.Config))
		}, says: "x.yaml:"},
		{name: "no configuration", layout: "json", wish: func(_ *testing.T, w *install.DesiredState) { w.Config = "" }, says: "nothing to install"},
		{name: "no executable", layout: "json", wish: func(_ *testing.T, w *install.DesiredState) { w.BinDir = "" }, says: `no executable found for provider "alpha"`},
		{name: "an executable too many", layout: "json", wish: func(_ *testing.T, w *install.DesiredState) { w.Plugins = []string{w.Dispatcher} }, says: "the configuration has no provider"},
		{name: "no dispatcher", layout: "json", wish: func(_ *testing.T, w *install.DesiredState) { w.Dispatcher += "x" }, says: "regcred-credential-providerx: no such file"},
		{name: "another architecture", layout: "json", wish: func(t *testing.T, w *install.DesiredState) {
			w.SkipExec, w.BinDir = false, t.TempDir()
			writeHostFile("alpha", string(testelf.BuildFile(t, elf.ELFCLASS64, binary.BigEndian, elf.EM_S390, "")))(t, w.BinDir)
		}, says: "s390"},
		{name: "an executable that does not work", layout: "json", wish: func(t *testing.T, w *install.DesiredState) {
			w.SkipExec, w.BinDir = false, t.TempDir()
			writeHostFile("alpha", "no program\n")(t, w.BinDir)
		}, says: "alpha: "},
		{name: "GKE", layout: "kubeadm", spoil: writeHostFile("home/kubernetes/bin/configure-helper.sh", ""), says: "cannot install on this node (gke)"},
		{name: "AKS", layout: "kubeadm", spoil: writeHostFile("opt/azure/containers/kubelet.sh", ""), says: "cannot install on this node (aks)"},
		{name: "Talos", layout: "kubeadm", spoil: writeHostFile("etc/os-release", "ID=talos\n"), says: "cannot install on this node (talos)"},
	}
}

// TestRefusals verifies that install rejects a change that would not work with a one-line
// error, and that it writes nothing.
func TestRefusals(t *testing.T) {
	for _, tt := range refusalTests() {
		t.Run(tt.name, func(t *testing.T) { tt.testRefusal(t, func(*testing.T, string) {}) })
	}
}

func (r refusalTest) testRefusal(t *testing.T, mount func(*testing.T, string)) {
	t.Helper()
	c := &testNode{fakeNode: &fakeNode{dir: t.TempDir(), layout: findLayout(t, r.layout), Boot: "boot"}, configDir: writeConfigs(t)}
	c.layout.writeFiles(t, c.rootDir())
	if r.spoil != nil {
		r.spoil(t, c.rootDir())
	}
	mount(t, c.rootDir())
	before := readTree(t, c.dir)
	c.newInstaller(t)
	w := desiredState(c.configDir, "a")
	if r.wish != nil {
		r.wish(t, &w)
	}
	_, err := c.Install(t.Context(), w, install.Options{})
	if r.says != "" {
		if err == nil || !strings.Contains(err.Error(), r.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %q", err, r.says)
		}
		if diff := before.differences(readTree(t, c.dir).withoutPaths("/node.json")); diff != "" {
			t.Errorf("changed: %s", diff)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if names, err := c.checkKubelets(); err != nil || len(names) == 0 {
		t.Errorf("%v, %v", names, err)
	}
	c.newInstaller(t)
	must.Do(t, c.Uninstall(t.Context(), install.Options{}))
	if diff := before.differences(readTree(t, c.dir).withoutPaths("/node.json")); diff != "" {
		t.Errorf("left: %s", diff)
	}
}

// TestRefusedMounts runs the same checks as TestRefusals with mounts that are read-only, noexec
// or full.
func TestRefusedMounts(t *testing.T) {
	if !ownMounts(t) {
		return
	}
	mount := func(source, target, kind string, flags uintptr, data string) func(*testing.T, string) {
		return func(t *testing.T, root string) {
			t.Helper()
			target := filepath.Join(root, target)
			if source == "" {
				source = target
			}
			must.Do(t, syscall.Mount(source, target, kind, flags, data))
			if flags&syscall.MS_BIND != 0 {
				must.Do(t, syscall.Mount("", target, "", flags|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
			}
			t.Cleanup(func() { _ = syscall.Unmount(target, syscall.MNT_DETACH) })
		}
	}
	readOnly := func(target string) func(*testing.T, string) { return mount("", target, "", syscall.MS_BIND, "") }
	immutable := func(name string) func(*testing.T, string) {
		return func(t *testing.T, root string) {
			t.Helper()
			name := filepath.Join(root, name)
			if out, err := exec.Command("chattr", "+i", name).CombinedOutput(); err != nil {
				t.Skipf("this file system has no immutable files: %s", out)
			}
			t.Cleanup(func() { _ = exec.Command("chattr", "-i", name).Run() })
		}
	}
	for _, tt := range []struct {
		refusalTest
		mount func(*testing.T, string)
	}{
		{refusalTest{name: "state directory read-only", layout: "json", says: "read-only file system"}, readOnly("var/lib")},
		{refusalTest{name: "state directory noexec", layout: "json", says: "is mounted noexec"}, mount("none", "var/lib", "tmpfs", syscall.MS_NOEXEC, "mode=755")},
		{refusalTest{name: "no space", layout: "json", says: "MiB free, but "}, mount("none", "var/lib", "tmpfs", 0, "size=1m,mode=755")},
		{refusalTest{name: "systemd read-only", layout: "kubeadm", says: "read-only file system"}, readOnly("etc/systemd")},
		{refusalTest{name: "state directory immutable", layout: "json", says: "the file is immutable; run chattr -i"}, immutable("var/lib")},
		{refusalTest{name: "bin dir read-only", layout: "json"}, readOnly("opt")},
		{refusalTest{name: "configuration read-only", layout: "json"}, readOnly("etc/kubernetes")},
		{refusalTest{name: "both read-only", layout: "json"}, func(t *testing.T, root string) { readOnly("opt")(t, root); readOnly("etc/kubernetes")(t, root) }},
		{refusalTest{name: "configuration immutable", layout: "json"}, immutable(configPath)},
		{refusalTest{name: "/usr read-only", layout: "kubeadm"}, readOnly("usr")},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.testRefusal(t, tt.mount) })
	}
	t.Run("rollback on a full disk", func(t *testing.T) {
		c := &testNode{fakeNode: &fakeNode{dir: t.TempDir(), layout: findLayout(t, "json"), Boot: "boot"}, configDir: writeConfigs(t)}
		c.layout.writeFiles(t, c.rootDir())
		mount("none", "var/lib", "tmpfs", 0, "size=8m,mode=755")(t, c.rootDir())
		for _, change := range []string{"install a", "install c"} {
			c.newInstaller(t)
			must.Do(t, c.makeChange(t.Context(), change))
		}
		if err := os.WriteFile(filepath.Join(c.rootDir(), "var/lib/full"), make([]byte, 16<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		c.newInstaller(t)
		if err := c.makeChange(t.Context(), "install b"); err == nil || !strings.Contains(err.Error(), "MiB free") {
			t.Errorf("install: %v", err)
		}
		if err := c.makeChange(t.Context(), "rollback 1"); err != nil {
			t.Error(err)
		}
		if n, err := c.Store.Current(); n != 1 || err != nil {
			t.Error(n, err)
		}
	})
}

// ownMounts reports whether this process has its own mount namespace. If it does not, ownMounts
// runs the test in a child process that has one.
func ownMounts(t *testing.T) bool {
	t.Helper()
	const inside = "REGCRED_TEST_MOUNTS"
	if os.Getenv(inside) != "" {
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("only root may mount")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v in a process with mounts of its own:\n%s", err, out)
	} else if testing.Verbose() {
		t.Logf("%s", out)
	}
	return false
}

// TestLinksStayInside verifies that absolute symlinks on a node are resolved within the node's
// root directory. The same paths exist on this machine and must not change.
func TestLinksStayInside(t *testing.T) {
	outside := t.TempDir()
	for _, l := range []string{"kubeadm", "json", "directory", "read-only bin dir"} {
		t.Run(l, func(t *testing.T) {
			c := &testNode{fakeNode: &fakeNode{dir: t.TempDir(), layout: findLayout(t, l), Boot: "boot"}, configDir: writeConfigs(t)}
			c.layout.writeFiles(t, c.rootDir())
			there := filepath.Join(outside, l)
			for _, dir := range []string{"etc/kubernetes", "etc/systemd", "var/lib", "opt/plugins"} {
				must.Do(t, os.MkdirAll(filepath.Join(there, dir), 0o755))
				if _, err := os.Stat(filepath.Join(c.rootDir(), dir)); err == nil {
					moveAndLink(dir, filepath.Join(there, dir))(t, c.rootDir())
				}
			}
			before, machine := readTree(t, c.rootDir()), readTree(t, outside)
			for _, change := range []string{"install a", "install b", "rollback 1", "install without", "status", "uninstall"} {
				c.newInstaller(t)
				var err error
				switch change {
				case "install without":
					_, err = c.Install(t.Context(), install.DesiredState{Plugins: []string{filepath.Join(c.configDir, "c/alpha")}, Dispatcher: desiredState(c.configDir, "a").Dispatcher, SkipExec: true}, installOptions())
				case "status":
					var s *install.Status
					if s, err = c.Status(t.Context()); err == nil && (len(s.Problems) > 0 || s.Current.Number != 3) {
						t.Error(s)
					}
				default:
					err = c.makeChange(t.Context(), change)
				}
				if err != nil {
					t.Errorf("%s: %v", change, err)
				}
				if diff := machine.differences(readTree(t, outside)); diff != "" {
					t.Fatalf("%s: this machine was changed: %s", change, diff)
				}
			}
			if diff := before.differences(readTree(t, c.rootDir())); diff != "" {
				t.Errorf("left: %s", diff)
			}
		})
	}
}
