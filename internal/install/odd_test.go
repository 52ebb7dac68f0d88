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
	"github.com/regcred/regcred/internal/install"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/node"
)

// layoutNode is a node with a layout, and the configurations that tests install on it.
type layoutNode struct {
	*fakeNode
	t         *testing.T
	configDir string
}

func newLayoutNode(t *testing.T, name string) *layoutNode {
	return &layoutNode{newFakeNode(t, findLayout(t, name)), t, writeConfigs(t)}
}

// installerIn returns an installer for the node with the state directory dir.
func (o *layoutNode) installerIn(dir string) *install.Installer {
	o.t.Helper()
	must.Do(o.t, o.loadState())
	in := must.Get(o.installerWithHook(nil))(o.t)
	in.Store.Dir = dir
	return in
}

func (o *layoutNode) runChanges(changes ...string) {
	o.t.Helper()
	for _, c := range changes {
		if err := o.run(o.configDir, c); err != nil {
			o.t.Fatalf("%s: %v", c, err)
		}
	}
}

func (o *layoutNode) status() *install.Status {
	o.t.Helper()
	return must.Get(o.installerIn(stateDir).Status(o.t.Context()))(o.t)
}

func (o *layoutNode) writeFile(name, text string) {
	o.t.Helper()
	name = filepath.Join(o.rootDir(), name)
	must.Do(o.t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)))
}

func (o *layoutNode) readFile(name string) string {
	o.t.Helper()
	data := must.Get(os.ReadFile(filepath.Join(o.rootDir(), name)))(o.t)
	return string(data)
}

// TestForeignDirectory verifies that regcred neither uses another program's directory as its
// state directory nor removes it.
func TestForeignDirectory(t *testing.T) {
	for _, dir := range []string{"/", "/var", "/srv", "/var/lib/kubelet"} {
		o := newLayoutNode(t, "kubeadm")
		o.writeFile("srv/kubelet/data", "precious")
		before := readTree(t, o.rootDir())
		if _, err := o.installerIn(dir).Install(t.Context(), desiredState(o.configDir, "a"), install.Options{Restart: true}); err == nil || !strings.Contains(err.Error(), "is not a regcred state directory") {
			t.Errorf("install: %s: %v", dir, err)
		}
		if err := o.installerIn(dir).Uninstall(t.Context(), install.Options{Restart: true}); err != nil {
			t.Errorf("uninstall: %s: %v", dir, err)
		}
		if diff := before.differences(readTree(t, o.rootDir())); diff != "" {
			t.Errorf("%s: -before +after\n%s", dir, diff)
		}
	}
	o := newLayoutNode(t, "kubeadm")
	o.runChanges("install a")
	o.writeFile(stateDir+"/notes.txt", "precious")
	o.runChanges("uninstall")
	if list, err := os.ReadDir(filepath.Join(o.rootDir(), stateDir)); err != nil || len(list) != 1 || list[0].Name() != "notes.txt" {
		t.Errorf("left: %v, %v", list, err)
	}
}

// TestVendorChanges verifies that a rollback keeps the node's own settings, such as the unit's
// command, as they are now. The kubelet might not start with the settings from the earlier
// generation.
func TestVendorChanges(t *testing.T) {
	for _, tt := range []struct {
		layout string
		change func(o *layoutNode)
		holds  func(o *layoutNode) bool
	}{
		{"kubeadm",
			func(o *layoutNode) {
				o.writeFile(kubeadmTen, strings.Replace(kubeadmUnit, "/usr/bin/kubelet $", "/usr/bin/kubelet --later $", 1))
			},
			func(o *layoutNode) bool {
				return strings.Contains(o.readFile("etc/systemd/system/kubelet.service.d/90-regcred.conf"), "--later")
			}},
		{"read-only bin dir",
			func(o *layoutNode) { o.writeFile("opt/plugins/later", "#!/bin/sh\n") },
			func(o *layoutNode) bool { return o.fs().Exists(stateDir + "/kubelet/bin/later") }},
	} {
		t.Run(tt.layout, func(t *testing.T) {
			o := newLayoutNode(t, tt.layout)
			o.t = t
			before := readTree(t, o.rootDir())
			o.runChanges("install a")
			tt.change(o)
			changed := readTree(t, o.rootDir())
			o.runChanges("install c")
			if !tt.holds(o) {
				t.Fatal("an install does not follow the node")
			}
			o.runChanges("rollback 1")
			if !tt.holds(o) {
				t.Error("a rollback brings back the node as it was")
			}
			if s := o.status(); s.Current.Number != 1 || len(s.Problems) > 0 {
				t.Errorf("generation %d: %q", s.Current.Number, s.Problems)
			}
			o.runChanges("uninstall")
			after := readTree(t, o.rootDir())
			for name := range changed {
				if _, ours := before[name]; !ours && after[name] == "" && !strings.Contains(name, "regcred") && !strings.HasPrefix(name, "/etc/systemd") {
					t.Errorf("%s is gone", name)
				}
			}
			for name := range after {
				if strings.Contains(name, "regcred") {
					t.Errorf("%s is left", name)
				}
			}
		})
	}
}

// TestReleaseReservedPatterns verifies that image patterns from --reserve and --any-image stay
// in the kubelet's entries until an install removes them.
func TestReleaseReservedPatterns(t *testing.T) {
	o := newLayoutNode(t, "kubeadm")
	yes, no := true, false
	for _, step := range []struct {
		any     *bool
		reserve []string
		pattern string
		wide    bool
		number  int
	}{
		{&yes, nil, "*.*", true, 1},
		{nil, nil, "*.*", true, 1},
		{&no, nil, "*.*", false, 2},
		{nil, []string{"reserved.example"}, "reserved.example", true, 3},
		{nil, nil, "reserved.example", true, 3},
		{nil, []string{}, "reserved.example", false, 2}, // generation 2 has the desired content
	} {
		w := desiredState(o.configDir, "a")
		w.AnyImage, w.Reserve = step.any, step.reserve
		p := must.Get(o.installerIn(stateDir).Install(t.Context(), w, install.Options{Restart: true}))(t)
		if s := o.status(); s.Current.Number != step.number {
			t.Errorf("%+v: generation %d is current; nothing to do: %v", step, s.Current.Number, p.UpToDate)
		}
		if got := strings.Contains(o.readFile(stateDir+"/kubelet/config/90-regcred.json"), `"`+step.pattern+`"`); got != step.wide {
			t.Errorf("%+v: the kubelet's entry has the pattern: %v", step, got)
		}
	}
}

// TestFlagsOverriddenByDropIn verifies that regcred reports a drop-in that overrides its flags.
// It must not restart the kubelet, because the kubelet would not use regcred.
func TestFlagsOverriddenByDropIn(t *testing.T) {
	o := newLayoutNode(t, "kubeadm")
	o.runChanges("install a")
	o.writeFile("etc/systemd/system/kubelet.service.d/99-foo.conf", "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet --foo\n")
	const want = "99-foo.conf:3"
	if s := o.status(); !strings.Contains(strings.Join(s.Problems, "\n"), want) {
		t.Errorf("status: %q", s.Problems)
	}
	p, err := o.installerIn(stateDir).Install(t.Context(), desiredState(o.configDir, "c"), install.Options{})
	if err != nil || !strings.Contains(strings.Join(p.Warnings, "\n"), want) {
		t.Errorf("install: %v, %+v", err, p)
	}
	if err := o.run(o.configDir, "install b"); err == nil || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("install with a restart: %v", err)
	}
}

// TestFlagsMoved verifies that install follows the kubelet's flags to a new configuration file.
func TestFlagsMoved(t *testing.T) {
	o := newLayoutNode(t, "yaml")
	o.runChanges("install a")
	o.writeFile(kubeadmEnv, "KUBELET_KUBEADM_ARGS=\""+flagsFor("/etc/elsewhere.yaml")+"\"\n")
	if s := o.status(); !strings.Contains(strings.Join(s.Problems, "\n"), "/etc/elsewhere.yaml") {
		t.Errorf("status: %q", s.Problems)
	}
	if _, err := o.installerIn(stateDir).Install(t.Context(), desiredState(o.configDir, "c"), install.Options{}); err == nil || !strings.Contains(err.Error(), wantRestartError) {
		t.Errorf("install without a restart: %v", err)
	}
	o.runChanges("install b")
	if s := o.status(); len(s.Problems)+len(s.Restart) > 0 || !strings.Contains(o.readFile("etc/elsewhere.yaml"), "regcred-credential-provider") {
		t.Errorf("status after an install: %q, %q", s.Problems, s.Restart)
	}
}

// TestStateRemoved verifies that regcred reports a removed state directory and that install
// restores it. It also verifies that an installer with another state directory reports the path
// of the one in use.
func TestStateRemoved(t *testing.T) {
	for _, name := range []string{"kubeadm", "yaml", "read-only bin dir"} {
		o := newLayoutNode(t, name)
		o.runChanges("install a")
		must.Do(t, os.RemoveAll(filepath.Join(o.rootDir(), stateDir)))
		if s := o.status(); len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "was removed") {
			t.Errorf("%s: status: %q", name, s.Problems)
		}
		if err := o.installerIn(stateDir).Uninstall(t.Context(), install.Options{Restart: true}); err == nil || !strings.Contains(err.Error(), "was removed") {
			t.Errorf("%s: uninstall: %v", name, err)
		}
		o.runChanges("install a")
		if s := o.status(); len(s.Problems) > 0 {
			t.Errorf("%s: mended: %q", name, s.Problems)
		}
		in := o.installerIn("/opt/elsewhere")
		_, err := in.Install(t.Context(), desiredState(o.configDir, "a"), install.Options{Restart: true})
		hint, _ := errors.AsType[*node.HintError](err)
		if hint == nil || hint.Hint != "--state-dir "+stateDir {
			t.Errorf("%s: install elsewhere: %v", name, err)
		}
		if err := in.Uninstall(t.Context(), install.Options{Restart: true}); err == nil {
			t.Errorf("%s: uninstall elsewhere: nothing is reported", name)
		}
		o.runChanges("uninstall")
	}
}

// TestNewerGenerationFormat verifies that regcred changes nothing if a newer version wrote the
// current generation.
func TestNewerGenerationFormat(t *testing.T) {
	o := newLayoutNode(t, "kubeadm")
	o.runChanges("install a", "install c")
	manifest := stateDir + "/generations/2/manifest.json"
	o.writeFile(manifest, strings.Replace(o.readFile(manifest), `"schemaVersion": 1`, `"schemaVersion": 99`, 1))
	before := readTree(t, o.rootDir())
	for _, c := range []string{"install a", "rollback 1", "uninstall"} {
		if err := o.run(o.configDir, c); !errors.Is(err, generation.ErrNewerVersion) {
			t.Errorf("%s: %v", c, err)
		}
	}
	if diff := before.differences(readTree(t, o.rootDir())); diff != "" {
		t.Errorf("-before +after\n%s", diff)
	}
}
