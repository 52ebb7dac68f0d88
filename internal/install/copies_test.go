// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package install_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/install"
	"github.com/regcred/regcred/internal/must"
)

// buildPrograms builds the dispatcher and a plugin, and returns the directory with both.
func buildPrograms(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "../../cmd/"+generation.DispatcherName, "../../cmd/static-credential-provider")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// TestCopiesAreTested verifies that an install tests the copies of the executables, at the place
// where the kubelet runs them, and that it tests the dispatcher.
func TestCopiesAreTested(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	built := buildPrograms(t)
	program := func(name string) string { return filepath.Join(built, name) }
	for _, tt := range []struct {
		name       string
		plugin     string // text of the plugin's script; DIR is the directory of the programs
		dispatcher string // path, or the text of a script
		says       string // part of the error; "" if the install succeeds
		warns      string
	}{
		{"both work", "exec DIR/static-credential-provider \"$@\"", program(generation.DispatcherName), "", ""},
		{"needs a file next to it", "exec \"$(dirname \"$0\")/static-credential-provider\" \"$@\"", program(generation.DispatcherName), "does not work: with the same input it ends with exit code 127 instead of 2", ""},
		{"another plugin as the dispatcher", "exec DIR/static-credential-provider \"$@\"", program("static-credential-provider"), "the dispatcher does not work", ""},
		{"a dispatcher that fails", "exec DIR/static-credential-provider \"$@\"", "#!/bin/sh\nexit 1\n", "the dispatcher does not work", ""},
		{"a dispatcher that prints nothing", "exec DIR/static-credential-provider \"$@\"", "#!/bin/sh\ncat >/dev/null\n", "the dispatcher does not work", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := newLayoutNode(t, "json")
			dir := t.TempDir()
			must.Do(t, os.Link(program("static-credential-provider"), filepath.Join(dir, "static-credential-provider")))
			writeHostFile("alpha", "#!/bin/sh\n"+strings.ReplaceAll(tt.plugin, "DIR", built)+"\n")(t, dir)
			must.Do(t, os.Chmod(filepath.Join(dir, "alpha"), 0o755|os.ModeSetuid))
			writeHostFile("password", "x")(t, dir)
			must.Do(t, os.Chmod(filepath.Join(dir, "password"), 0o600))
			if strings.HasPrefix(tt.dispatcher, "#!") {
				writeHostFile("d/"+generation.DispatcherName, tt.dispatcher)(t, dir)
				tt.dispatcher = filepath.Join(dir, "d", generation.DispatcherName)
			}
			d := desiredState(o.configDir, "a")
			config := strings.Replace(oneProvider, "  apiVersion:", "  args: [--host=registry.example, --username=u, --password-file="+filepath.Join(dir, "password")+"]\n  apiVersion:", 1)
			writeHostFile("x.yaml", config)(t, dir)
			d.Config, d.BinDir, d.Dispatcher, d.SkipExec = filepath.Join(dir, "x.yaml"), dir, tt.dispatcher, false
			before := readTree(t, o.rootDir())
			p, err := o.installerIn(stateDir).Install(t.Context(), d, installOptions())
			if tt.says != "" {
				if err == nil || !strings.Contains(err.Error(), "nothing was changed: ") || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("got %v, want %q", err, tt.says)
				}
				if diff := before.differences(readTree(t, o.rootDir())); diff != "" {
					t.Errorf("changed: %s", diff)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(strings.Join(p.Warnings, "\n"), "setuid and setgid bits are not copied") {
				t.Errorf("warnings: %q", p.Warnings)
			}
			if list := must.Get(o.fs().ReadDir(stateDir + "/generations"))(t); len(list) != 1 {
				t.Errorf("generations: %v", list)
			}
			o.runChanges("uninstall")
		})
	}
}

// TestStateDirPlace verifies that an install refuses a state directory that does not survive a
// boot, or that other users can change, and that an uninstall keeps a directory that existed.
func TestStateDirPlace(t *testing.T) {
	mkdir := func(name string, mode os.FileMode, owner int) func(t *testing.T, root string) {
		return func(t *testing.T, root string) {
			name := filepath.Join(root, name)
			must.Do(t, errors.Join(os.MkdirAll(name, 0o755), os.Chmod(name, mode), os.Chown(name, owner, 0)))
		}
	}
	none := func(*testing.T, string) {}
	for _, tt := range []struct {
		dir   string
		spoil func(t *testing.T, root string)
		says  string
	}{
		{"/run/regcred", mkdir("run", 0o755, 0), "is below /run, which does not keep files"},
		{"/var/run/regcred", mkdir("var/run", 0o755, 0), "is below /var/run"},
		{"/tmp/regcred", mkdir("tmp", 0o1777, 0), "is below /tmp"},
		{"/var/tmp/regcred", mkdir("var/tmp", 0o1777, 0), "is below /var/tmp"},
		{"/dev/shm/regcred", mkdir("dev/shm", 0o1777, 0), "is below /dev"},
		{"/srv/regcred", mkdir("srv", 0o777, 0), "srv is writable by all users"},
		{"/srv/regcred", mkdir("srv", 0o755, 1000), "srv is owned by user 1000"},
		{"/srv/a/regcred", func(t *testing.T, root string) { mkdir("srv/a", 0o755, 0)(t, root); mkdir("srv", 0o755, 1000)(t, root) }, "srv is owned by user 1000"},
		{"/srv/regcred", mkdir("srv/regcred", 0o777, 1000), "regcred is writable by all users"},
		{"/srv/a/regcred", func(t *testing.T, root string) {
			mkdir("open", 0o777, 0)(t, root)
			mkdir("srv", 0o755, 0)(t, root)
			createSymlink("srv/a", "/open")(t, root)
		}, "open is writable by all users"},
		{"/srv/regcred", writeHostFile("srv/regcred/x", ""), `because it contains "x"`},
		{"/srv/regcred", mkdir("srv/regcred", 0o755, 0), ""},
		{"/srv/regcred", mkdir("srv", 0o755, 0), ""},
		{"/opt/regcred", none, ""},
	} {
		o := newLayoutNode(t, "kubeadm")
		o.Running = nil // the fake kubelet knows only the default directory
		must.Do(t, o.saveState())
		tt.spoil(t, o.rootDir())
		before := readTree(t, o.rootDir())
		in := o.installerIn(tt.dir)
		_, err := in.Install(t.Context(), desiredState(o.configDir, "a"), installOptions())
		if err == nil && tt.says == "" {
			err = o.installerIn(tt.dir).Uninstall(t.Context(), install.Options{Restart: true})
		} else if err != nil && tt.says != "" && strings.Contains(err.Error(), tt.says) {
			err = nil
		} else if err == nil {
			err = errors.New("installed")
		}
		if err != nil {
			t.Errorf("%s: %v, want %q", tt.dir, err, tt.says)
		}
		if diff := before.differences(readTree(t, o.rootDir())); diff != "" {
			t.Errorf("%s: changed or left: %s", tt.dir, diff)
		}
	}
}

// TestEmptyForeignDirectory verifies that an uninstall leaves an empty directory in place that is
// not regcred's.
func TestEmptyForeignDirectory(t *testing.T) {
	o := newLayoutNode(t, "kubeadm")
	must.Do(t, os.MkdirAll(filepath.Join(o.rootDir(), "srv/empty"), 0o755))
	if err := o.installerIn("/srv/empty").Uninstall(t.Context(), installOptions()); err != nil || !o.fs().Exists("/srv/empty") {
		t.Errorf("the directory exists: %t, %v", o.fs().Exists("/srv/empty"), err)
	}
}

// TestLooseStateFiles verifies that status reports files of the state directory that other users
// can write.
func TestLooseStateFiles(t *testing.T) {
	for _, name := range []string{"generations/1/manifest.json", "generations/1", "generations", "applied.json", ""} {
		o := newLayoutNode(t, "kubeadm")
		o.runChanges("install a")
		must.Do(t, os.Chmod(filepath.Join(o.rootDir(), stateDir, name), 0o777))
		if s := o.status(); !strings.Contains(strings.Join(s.Problems, "\n"), "writable by ") {
			t.Errorf("%q: %q", name, s.Problems)
		}
	}
}
