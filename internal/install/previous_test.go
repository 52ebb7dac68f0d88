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
)

// install installs one of the configurations of writeConfigs.
func (o *layoutNode) install(name string, restart bool) (*install.Plan, error) {
	o.t.Helper()
	return o.installerIn(stateDir).Install(o.t.Context(), desiredState(o.configDir, name), install.Options{Restart: restart})
}

// TestReuseEarlierGeneration verifies that installing the content of an earlier generation
// activates that generation. It must not create a generation, and must not restart a kubelet
// that has loaded the entries.
func TestReuseEarlierGeneration(t *testing.T) {
	for _, layout := range []string{"kubeadm", "json", "directory", "read-only bin dir", "k3s"} {
		t.Run(layout, func(t *testing.T) {
			o := newLayoutNode(t, layout)
			o.runChanges("install a")
			first := readTree(t, o.rootDir()).withoutPaths(recordFiles()...)
			o.runChanges("install b")
			second := readTree(t, o.rootDir()).withoutPaths(recordFiles()...)
			pid := o.Running.PID
			for _, step := range []struct {
				wish   string
				number int
				as     fileTree
			}{{"a", 1, first}, {"b", 2, second}, {"a", 1, first}, {"c", 3, nil}, {"b", 2, nil}} {
				p, err := o.install(step.wish, false)
				if err != nil {
					t.Fatalf("%s: %v", step.wish, err)
				}
				s := o.status()
				if s.Current.Number != step.number || len(s.Problems)+len(s.Restart) > 0 || p.Reactivate != (step.wish != "c") {
					t.Errorf("%s: generation %d, former %v, %q %q", step.wish, s.Current.Number, p.Reactivate, s.Problems, s.Restart)
				}
				if now := readTree(t, o.rootDir()); step.as != nil {
					// The kubelet may have loaded the second entry, so its link is kept.
					delete(step.as, o.BinDir+"/regcred-credential-provider-2")
					delete(now, o.BinDir+"/regcred-credential-provider-2")
					if diff := step.as.withoutPaths(stateDir).differences(now.withoutPaths(stateDir)); diff != "" {
						t.Errorf("%s: %s", step.wish, diff)
					}
				}
				if o.Running.PID != pid {
					t.Fatalf("%s: the kubelet was restarted", step.wish)
				}
			}
			if numbers, err := o.store().ListNumbers(); err != nil || len(numbers) != 3 {
				t.Errorf("generations %v, %v", numbers, err)
			}
		})
	}
}

// TestReuseDamagedGeneration verifies that a modified generation is not activated again.
// install creates a new generation instead.
func TestReuseDamagedGeneration(t *testing.T) {
	o := newLayoutNode(t, "json")
	o.runChanges("install a", "install c")
	o.writeFile(stateDir+"/generations/1/bin/alpha", "#!/bin/sh\n# of somebody else\n")
	p, err := o.install("a", false)
	if s := o.status(); err != nil || p.Reactivate || s.Current.Number != 3 || len(s.Problems) > 0 {
		t.Errorf("generation %d, %q; former: %v; %v", s.Current.Number, s.Problems, p.Reactivate, err)
	}
}

// TestReuseWithoutRestart verifies that install does not activate an earlier generation that
// needs a restart if a new generation needs none.
func TestReuseWithoutRestart(t *testing.T) {
	o := newLayoutNode(t, "json")
	yes, no := true, false
	for _, step := range []struct {
		any     *bool
		restart bool
		number  int
		former  bool
	}{
		{&no, true, 1, false},
		{&yes, true, 2, false},
		{&no, false, 1, true}, // the kubelet has also loaded the entries for any image
		{&yes, false, 2, true},
	} {
		w := desiredState(o.configDir, "a")
		w.AnyImage = step.any
		p, err := o.installerIn(stateDir).Install(t.Context(), w, install.Options{Restart: step.restart})
		if err != nil {
			t.Fatalf("%+v: %v", step, err)
		}
		if s := o.status(); s.Current.Number != step.number || p.Reactivate != step.former {
			t.Errorf("%+v: generation %d, former %v", step, s.Current.Number, p.Reactivate)
		}
	}
	w := desiredState(o.configDir, "a") // a restarted kubelet has loaded only the current entries
	w.AnyImage = &no
	must.Get(o.installerIn(stateDir).Install(t.Context(), w, install.Options{}))(t)
	o.startKubelet()
	must.Do(t, o.saveState())
	w.AnyImage = &yes
	_, err := o.installerIn(stateDir).Install(t.Context(), w, install.Options{})
	if err == nil || !strings.Contains(err.Error(), "the kubelet must be restarted: its loaded entries do not cover ") {
		t.Errorf("got %v", err)
	}
	p, err := o.installerIn(stateDir).Install(t.Context(), w, install.Options{Restart: true})
	if s := o.status(); err != nil || !p.Reactivate || s.Current.Number != 2 || len(s.Problems)+len(s.Restart) > 0 {
		t.Errorf("generation %d, %q %q, %v", s.Current.Number, s.Problems, s.Restart, err)
	}
}

// TestInstallRepairs verifies that repeating an install repairs the problems that status
// reports, or explains why it cannot.
func TestInstallRepairs(t *testing.T) {
	const (
		dropIns = "etc/systemd/system/kubelet.service.d"
		dropIn  = dropIns + "/90-regcred.conf"
		link    = "opt/plugins/regcred-credential-provider"
		gen     = "var/lib/regcred/generations"
	)
	overwrite := func(name, text string) func(*layoutNode) error {
		return func(o *layoutNode) error {
			name := filepath.Join(o.rootDir(), name)
			return errors.Join(os.RemoveAll(name), os.WriteFile(name, []byte(text), 0o644))
		}
	}
	remove := func(name string) func(*layoutNode) error {
		return func(o *layoutNode) error { return os.RemoveAll(filepath.Join(o.rootDir(), name)) }
	}
	all := func(list ...func(*layoutNode) error) func(*layoutNode) error {
		return func(o *layoutNode) (err error) {
			for _, f := range list {
				err = errors.Join(err, f(o))
			}
			return err
		}
	}
	restart := func(o *layoutNode) error { // simulates that another program restarts the kubelet
		if err := (fakeSystemd{fakeNode: o.fakeNode}).Reload(t.Context()); err != nil {
			return err
		}
		o.startKubelet()
		return o.saveState()
	}
	for _, tt := range []struct {
		name, layout string
		spoil        func(*layoutNode) error
		status       string // part of a problem or restart reason that status reports
		says         string // part of the error of install; "" if install repairs the node
		warns        string // part of a warning of install; the problem then remains
		number       int    // the current generation afterwards
	}{
		{name: "link gone", layout: "json", spoil: remove(link), status: "missing", number: 1},
		{name: "link replaced", layout: "json", spoil: overwrite(link, "#!/bin/sh\n"), status: "no longer a link to", says: "already exists and does not belong to regcred"},
		{name: "dispatcher gone", layout: "json", spoil: remove("var/lib/regcred/" + generation.DispatcherName), status: "does not belong to generation 1", number: 1},
		{name: "dispatcher replaced", layout: "json", spoil: overwrite("var/lib/regcred/"+generation.DispatcherName, "#!/bin/sh\n# x\n"), status: "does not belong to generation 1", number: 1},
		{name: "entries gone", layout: "json", spoil: overwrite("etc/kubernetes/cred.json", foreignJSON), status: "its regcred entries differ from those of generation", number: 1},
		{name: "entries gone, YAML", layout: "yaml", spoil: overwrite("etc/kubernetes/cred.yaml", foreignYAML), status: "its regcred entries differ from those of generation", number: 1},
		{name: "our file in a directory gone", layout: "directory", spoil: remove("etc/kubernetes/cred.d/90-regcred.json"), status: "missing", number: 1},
		{name: "our file in a directory changed", layout: "directory", spoil: overwrite("etc/kubernetes/cred.d/90-regcred.json", "{}"), status: "changed since it was installed", says: "already exists and differs from regcred's file"},
		{name: "drop-in gone", layout: "kubeadm", spoil: remove(dropIn), status: "90-regcred.conf: missing", number: 1},
		{name: "its directory gone", layout: "kubeadm", spoil: remove(dropIns), status: "90-regcred.conf: missing", number: 1},
		{name: "drop-in changed", layout: "kubeadm", spoil: overwrite(dropIn, "[Service]\nNice=1\n"), status: "changed since it was installed", says: "already exists and differs from regcred's file"},
		{name: "configuration below the state directory gone", layout: "kubeadm", spoil: remove("var/lib/regcred/kubelet/config"), status: "90-regcred.json: missing", number: 1},
		{name: "bin dir below the state directory gone", layout: "kubeadm", spoil: remove("var/lib/regcred/kubelet/bin"), status: "missing", number: 1},
		{name: "drop-in gone, and the kubelet started without it", layout: "kubeadm", spoil: all(remove(dropIn), restart), status: "it runs without --image-credential-provider-config", says: "--restart", number: 1},
		{name: "entries gone, and the kubelet started without them", layout: "json", spoil: all(overwrite("etc/kubernetes/cred.json", foreignJSON), restart), status: "its regcred entries differ from those of generation", number: 1},
		{name: "the unit's command is another", layout: "kubeadm", spoil: func(o *layoutNode) error {
			name := filepath.Join(o.rootDir(), kubeadmTen)
			data, err := os.ReadFile(name)
			changed := strings.Replace(string(data), "/usr/bin/kubelet", "/usr/bin/kubelet --v=3", 1)
			if changed == string(data) {
				err = errors.Join(err, errors.New("the unit is another"))
			}
			return errors.Join(err, os.WriteFile(name, []byte(changed), 0o644))
		}, status: "contains an outdated copy of the ExecStart= command", number: 2},
		{name: "a drop-in behind ours", layout: "kubeadm", spoil: overwrite(dropIns+"/99-foo.conf", "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet --foo\n"),
			status: "next start, the kubelet would not use regcred", warns: "next start, the kubelet would not use regcred: ", number: 2},
		{name: "a plugin of others gone", layout: "read-only bin dir", spoil: func(o *layoutNode) error { return o.forEachVendorPlugin(os.Remove) }, status: "dangling symlink to", number: 2},
		{name: "a plugin of others more", layout: "read-only bin dir", spoil: func(o *layoutNode) error {
			return o.forEachVendorPlugin(func(name string) error { return os.WriteFile(name+"-more", nil, 0o755) })
		}, status: "was added after", number: 2},
		{name: "plugin replaced", layout: "json", spoil: overwrite(gen+"/1/bin/alpha", "#!/bin/sh\n# mine\n"), status: "has been changed since it was installed", number: 2},
		{name: "plugin gone", layout: "json", spoil: remove(gen + "/1/bin/alpha"), status: "has been changed since it was installed", number: 2},
		{name: "configuration gone", layout: "json", spoil: remove(gen + "/1/config/a.yaml"), status: "has been changed since it was installed", number: 2},
		{name: "current gone", layout: "json", spoil: remove("var/lib/regcred/current"), status: "no generation is current", number: 1},
		{name: "current gone, and a link", layout: "kubeadm", spoil: all(remove("var/lib/regcred/current"), remove(dropIn)), status: "no generation is current", number: 1},
		{name: "current elsewhere", layout: "json", spoil: func(o *layoutNode) error { return o.fs().Symlink("/etc", stateDir+"/current") }, status: "which is not a regcred generation", says: "which is not a regcred generation"},
		{name: "a broken write", layout: "json", status: "left over from an interrupted change", spoil: overwrite("var/lib/regcred/x.regcred-new", "x"), number: 1},
		{name: "a generation that is being made", layout: "json", spoil: func(o *layoutNode) error { return os.Mkdir(filepath.Join(o.rootDir(), gen, "new"), 0o700) }, status: "left over from an interrupted change", number: 1},
		{name: "the journal cut", layout: "json", spoil: overwrite("var/lib/regcred/journal.json", `{"action":`), status: "journal.json is damaged", says: "journal.json is damaged"},
		{name: "the record of entries gone", layout: "json", spoil: remove("var/lib/regcred/applied.json"), status: "its loaded entries are unknown", says: "--restart", number: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := newLayoutNode(t, tt.layout)
			o.runChanges("install a")
			whole := readTree(t, o.rootDir()).withoutPaths(recordFiles()...)
			must.Do(t, errors.Join(o.loadState(), tt.spoil(o), o.saveState()))
			s := o.status()
			if said := strings.Join(append(s.Problems, s.Restart...), "\n"); !strings.Contains(said, tt.status) {
				t.Fatalf("status: %q, want %q", said, tt.status)
			}
			spoilt := readTree(t, o.rootDir())
			p, err := o.install("a", false)
			if needs := err != nil && strings.Contains(err.Error(), "the kubelet must be restarted"); needs && tt.says == "--restart" {
				if diff := spoilt.differences(readTree(t, o.rootDir())); diff != "" {
					t.Errorf("without --restart: %s", diff)
				}
				if p, err = o.install("a", true); err != nil {
					t.Fatal(err)
				}
			} else if (err != nil) != (tt.says != "") || err != nil && (!strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "\n")) {
				t.Fatalf("got %v, want %q", err, tt.says)
			}
			if err != nil {
				return
			}
			s = o.status()
			said := strings.Join(append(s.Problems, s.Restart...), "\n")
			if tt.warns != "" && (!strings.Contains(strings.Join(p.Warnings, "\n"), tt.warns) || !strings.Contains(said, tt.status)) || tt.warns == "" && said != "" {
				t.Errorf("status: %q; warnings %q", said, p.Warnings)
			}
			if s.Current.Number != tt.number {
				t.Errorf("generation %d, want %d", s.Current.Number, tt.number)
			}
			if now := readTree(t, o.rootDir()).withoutPaths(recordFiles()...); tt.number == 1 && tt.warns == "" {
				if diff := whole.differences(now); diff != "" {
					t.Errorf("not as before: %s", diff)
				}
			}
			if p, err := o.install("a", false); err != nil || !p.UpToDate || len(p.Restart) > 0 || !strings.Contains(strings.Join(p.Warnings, "\n"), tt.warns) {
				t.Errorf("once more: %v, nothing %v, restart %q, warnings %q", err, p.UpToDate, p.Restart, p.Warnings)
			}
			o.runChanges("uninstall")
		})
	}
}

// forEachVendorPlugin calls f with the path of the first plugin in the node's own plugin
// directory.
func (o *layoutNode) forEachVendorPlugin(f func(name string) error) error {
	s, err := o.readSetup(o.t.Context())
	if err != nil {
		return err
	}
	dir := s.Vendor.BinDir.Path
	list, err := o.fs().ReadDir(dir)
	if err != nil || len(list) == 0 {
		return errors.Join(err, errors.New("the vendor has no plugin in "+dir))
	}
	return f(filepath.Join(o.rootDir(), dir, list[0].Name()))
}

// TestOwner verifies that another owner can neither replace nor uninstall an installation.
func TestOwner(t *testing.T) {
	o := newLayoutNode(t, "json")
	as := func(owner, name string) error {
		w := desiredState(o.configDir, name)
		w.Owner = owner
		_, err := o.installerIn(stateDir).Install(t.Context(), w, install.Options{Restart: true})
		return err
	}
	off := func(owner string) error {
		return o.installerIn(stateDir).Uninstall(t.Context(), install.Options{Restart: true, Owner: owner})
	}
	must.Do(t, errors.Join(as("web/one", "a"), as("web/one", "b")))
	must.Get(o.installerIn(stateDir).Rollback(t.Context(), 1, installOptions()))(t)
	if s := o.status(); s.Current.Owner != "web/one" || s.Current.Source != "release web/one" || s.Current.Number != 1 {
		t.Errorf("after a rollback: %+v", s.Current)
	}
	before := readTree(t, o.rootDir())
	for what, err := range map[string]error{"by hand": as("", "a"), "another": as("web/two", "a"), "another's uninstall": off("web/two")} {
		if e, ok := errors.AsType[*install.OwnerError](err); !ok || e.Owner != "web/one" || e.Hint() == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if diff := before.differences(readTree(t, o.rootDir())); diff != "" {
		t.Errorf("the rejected node has changed: %s", diff)
	}
	must.Do(t, errors.Join(as("web/one", "c"), off("web/one"), as("", "a")))
	for what, err := range map[string]error{"onto one by hand": as("web/one", "a"), "uninstall of one by hand": off("web/one")} {
		if e, ok := errors.AsType[*install.OwnerError](err); !ok || e.Owner != "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := off(""); err != nil {
		t.Error(err)
	}
}
