// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package install_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/install"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/node"
)

// vendorFlags is an environment file with the flags of a node's vendor.
const vendorFlags = "KUBELET_KUBEADM_ARGS=\"--image-credential-provider-config=/etc/vendor/config.yaml --image-credential-provider-bin-dir=/opt/vendor\"\n"

// TestVendorChangesAfterInstall verifies that status reports providers that the node's vendor adds or moves after an
// install, and that the next install includes them.
func TestVendorChangesAfterInstall(t *testing.T) {
	vendor := func(o *layoutNode) {
		o.writeFile("etc/vendor/config.yaml", foreignYAML)
		o.writeFile("opt/vendor/foreign", "#!/bin/sh\n")
		must.Do(t, os.Chmod(filepath.Join(o.rootDir(), "opt/vendor/foreign"), 0o755))
		o.writeFile(kubeadmEnv, vendorFlags)
	}
	fixedConfig := func(s *node.Setup) {
		if s.Vendor.Config.Path == "/etc/kubernetes/cred.yaml" {
			s.Vendor.Config.Fixed, s.Way = "/etc/kubernetes is mounted read-only", node.MethodDropIn
		}
	}
	for name, tt := range map[string]struct {
		layout string
		spoil  func(*node.Setup)
		change func(o *layoutNode)
		want   string // in a problem that status reports
	}{
		"flags appear":                   {"kubeadm", nil, vendor, "regcred's drop-in overrides --image-credential-provider-config=/etc/vendor/config.yaml of "},
		"linked configuration moves":     {"yaml", fixedConfig, vendor, "regcred's drop-in overrides --image-credential-provider-config=/etc/vendor/config.yaml of "},
		"linked plugins move":            {"read-only bin dir", nil, vendor, "regcred's drop-in overrides --image-credential-provider-config=/etc/vendor/config.yaml of "},
		"configuration and plugins move": {"yaml", nil, vendor, "sets --image-credential-provider-config=/etc/vendor/config.yaml instead of /etc/kubernetes/cred.yaml"},
		"provider without a link": {"read-only bin dir", nil, func(o *layoutNode) {
			o.writeFile("etc/kubernetes/cred.json", strings.ReplaceAll(o.readFile("etc/kubernetes/cred.json"), `"foreign"`, `"added"`))
			o.writeFile("opt/plugins/added", "#!/bin/sh\n")
			must.Do(t, os.Chmod(filepath.Join(o.rootDir(), "opt/plugins/added"), 0o755))
		}, "the kubelet would not start: "},
	} {
		t.Run(name, func(t *testing.T) {
			l := findLayout(t, tt.layout)
			if tt.spoil != nil {
				l.spoil = tt.spoil
			}
			o := &layoutNode{newFakeNode(t, l), t, writeConfigs(t)}
			o.runChanges("install a")
			tt.change(o)
			if s := o.status(); !strings.Contains(strings.Join(s.Problems, "\n"), tt.want) {
				t.Errorf("status: %q, want %q", s.Problems, tt.want)
			}
			o.runChanges("install a")
			names := must.Get(o.checkKubelets())(t)
			if s := o.status(); len(s.Problems) > 0 || len(names) != 2 || !slices.Contains(names, "regcred-credential-provider") {
				t.Errorf("after an install, the kubelet has the providers %v; status: %q", names, s.Problems)
			}
			o.runChanges("uninstall")
			if names := must.Get(o.checkKubelets())(t); len(names) != 1 || strings.Contains(names[0], "regcred") {
				t.Errorf("after an uninstall, the kubelet has the providers %v", names)
			}
		})
	}
}

// TestUninstallThatBreaksKubelet verifies that an uninstall is refused if the kubelet would not start afterwards, and
// that Force overrides this.
func TestUninstallThatBreaksKubelet(t *testing.T) {
	vendorLine := `    {"name": "foreign", "matchImages": ["foreign.example"], "defaultCacheDuration": "1m", "apiVersion": "credentialprovider.kubelet.k8s.io/v1"}`
	for name, tt := range map[string]struct {
		layout, want string
		change       func(o *layoutNode)
		left         string // file that an uninstall with Force keeps
	}{
		"no other provider": {"yaml", "cred.yaml: providers: ", func(o *layoutNode) {
			text := o.readFile("etc/kubernetes/cred.yaml")
			o.writeFile("etc/kubernetes/cred.yaml", strings.Replace(text, text[strings.Index(text, "- name: foreign"):strings.Index(text, "- name: regcred")], "", 1))
		}, "etc/kubernetes/cred.yaml"},
		"no other provider in JSON": {"json", "cred.json: providers: ", func(o *layoutNode) {
			o.writeFile("etc/kubernetes/cred.json", strings.Replace(o.readFile("etc/kubernetes/cred.json"), vendorLine+",\n", "", 1))
		}, "etc/kubernetes/cred.json"},
		"flags name regcred's files": {"kubeadm", "kubeadm-flags.env:1", func(o *layoutNode) {
			o.writeFile(kubeadmEnv, "KUBELET_KUBEADM_ARGS=\"--image-credential-provider-config=/var/lib/regcred/kubelet/config/90-regcred.json --image-credential-provider-bin-dir=/var/lib/regcred/kubelet/bin\"\n")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := newLayoutNode(t, tt.layout)
			o.runChanges("install a")
			tt.change(o)
			before := readTree(t, o.rootDir())
			err := o.run(o.configDir, "uninstall")
			_, ok := errors.AsType[*install.NextStartError](err)
			if !ok || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("uninstall: %v, want an error with %q", err, tt.want)
			}
			if diff := before.differences(readTree(t, o.rootDir())); diff != "" {
				t.Errorf("the refused uninstall changed files:\n%s", diff)
			}
			in := o.installerIn(stateDir)
			in.Service.Manager = nil
			in.Setup.Running, in.ReadSetup = nil, nil
			must.Do(t, in.Uninstall(t.Context(), install.Options{Force: true}))
			if tt.left != "" && strings.Contains(o.readFile(tt.left), "regcred") {
				t.Errorf("%s still has regcred's entry", tt.left)
			}
		})
	}
}

// TestInstallOwnConfigTwice verifies that a repeated install of the kubelet's own file does not make the dispatcher a
// provider of itself.
func TestInstallOwnConfigTwice(t *testing.T) {
	o := newLayoutNode(t, "yaml")
	w := desiredState(o.configDir, "a")
	w.Config, w.BinDir = filepath.Join(o.rootDir(), "etc/kubernetes/cred.yaml"), filepath.Join(o.rootDir(), "opt/plugins")
	for i := range 2 {
		p := must.Get(o.installerIn(stateDir).Install(t.Context(), w, installOptions()))(t)
		if got := o.status().Current.Executables(); p.UpToDate != (i == 1) || !slices.Equal(got, []string{"foreign"}) {
			t.Errorf("install %d: up to date %t, plugins %v", i, p.UpToDate, got)
		}
	}
	w.Plugins = []string{filepath.Join(o.configDir, "alpha")}
	must.Do(t, os.Symlink(w.Dispatcher, w.Plugins[0]))
	w.Config = filepath.Join(o.configDir, "a.yaml")
	if _, err := o.installerIn(stateDir).Install(t.Context(), w, installOptions()); err == nil || !strings.Contains(err.Error(), "is regcred's dispatcher") {
		t.Errorf("a link to the dispatcher as a plugin: %v", err)
	}
	must.Do(t, os.Remove(w.Plugins[0]))
	if testing.Short() {
		return // do not build the dispatcher
	}
	must.Do(t, os.Rename(filepath.Join(buildPrograms(t, generation.DispatcherName), generation.DispatcherName), w.Plugins[0]))
	if _, err := o.installerIn(stateDir).Install(t.Context(), w, installOptions()); err == nil || !strings.Contains(err.Error(), "is regcred's dispatcher") {
		t.Errorf("a copy of the dispatcher as a plugin: %v", err)
	}
}

// moveVendor sets the vendor's flags to another configuration and bin dir, with copies of its files.
func (o *layoutNode) moveVendor(config, binDir string) {
	o.writeFile(config, foreignYAML)
	o.writeFile(binDir+"/foreign", "#!/bin/sh\n")
	must.Do(o.t, os.Chmod(filepath.Join(o.rootDir(), binDir, "foreign"), 0o755))
	o.writeFile(kubeadmEnv, "KUBELET_KUBEADM_ARGS=\"--image-credential-provider-config=/"+config+" --image-credential-provider-bin-dir=/"+binDir+"\"\n")
}

// TestRollbackAfterMove verifies that a rollback to a generation that was made before the node's vendor moved its
// configuration or plugins uses the current paths, also if the old directories are gone.
func TestRollbackAfterMove(t *testing.T) {
	for _, layout := range []string{"yaml", "read-only bin dir"} {
		for _, removed := range []string{"", "opt/plugins", "etc/kubernetes"} {
			t.Run(layout+", "+removed, func(t *testing.T) {
				o := newLayoutNode(t, layout)
				o.t = t
				o.runChanges("install a")
				o.moveVendor("etc/vendor/config.yaml", "opt/vendor")
				o.runChanges("install b")
				if removed != "" {
					must.Do(t, os.RemoveAll(filepath.Join(o.rootDir(), removed)))
				}
				o.runChanges("rollback 1")
				names := must.Get(o.checkKubelets())(t)
				if s := o.status(); len(s.Problems) > 0 || !slices.Equal(s.Current.Executables(), []string{"alpha"}) || !slices.Contains(names, "foreign") || !slices.Contains(names, generation.DispatcherName) {
					t.Errorf("providers %v, generation with %v, status: %q", names, s.Current.Executables(), s.Problems)
				}
				o.runChanges("uninstall")
				if names := must.Get(o.checkKubelets())(t); !slices.Equal(names, []string{"foreign"}) {
					t.Errorf("after an uninstall: %v", names)
				}
			})
		}
	}
}

// TestBrokenBefore verifies changes of a node whose kubelet does not start before the change either: another reason is
// refused, and the same reason is a warning that names it.
func TestBrokenBefore(t *testing.T) {
	o := newLayoutNode(t, "yaml")
	plugin := filepath.Join(o.rootDir(), "opt/plugins/foreign")
	o.Running = nil
	must.Do(t, o.saveState())
	must.Do(t, os.Remove(plugin))
	change := func(do string) []string {
		in := o.installerIn(stateDir)
		must.Do(t, makeChange(t.Context(), in, o.configDir, do))
		return in.Warnings
	}
	for _, do := range []string{"install a", "install a", "install b", "rollback 1"} {
		if warnings := change(do); len(warnings) != 1 || !strings.Contains(warnings[0], `provider "foreign": `) {
			t.Errorf("%s: warnings %q", do, warnings)
		}
	}
	text := o.readFile("etc/kubernetes/cred.yaml")
	o.writeFile("etc/kubernetes/cred.yaml", strings.Replace(text, text[strings.Index(text, "- name: foreign"):strings.Index(text, "- name: regcred")], "", 1))
	must.Do(t, os.Remove(filepath.Join(o.rootDir(), "opt/plugins", generation.DispatcherName)))
	if err := o.run(o.configDir, "uninstall"); err == nil || !strings.Contains(err.Error(), "at least one provider is required") {
		t.Errorf("uninstall: %v", err)
	}
	in := o.installerIn(stateDir)
	must.Do(t, in.Uninstall(t.Context(), install.Options{Force: true}))
	if len(in.Warnings) != 1 || !strings.Contains(in.Warnings[0], "at least one provider is required") {
		t.Errorf("uninstall with Force: warnings %q", in.Warnings)
	}
}

// TestVendorProviderBroken verifies that status and install name the provider that keeps regcred from including the
// vendor's new providers.
func TestVendorProviderBroken(t *testing.T) {
	o := newLayoutNode(t, "kubeadm")
	o.runChanges("install a")
	o.moveVendor("etc/vendor/config.yaml", "opt/vendor")
	o.writeFile("etc/vendor/config.yaml", strings.Replace(foreignYAML, "# The end.", "- {name: v2, matchImages: [v2.example], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1}", 1))
	want := `provider "v2": `
	if s := o.status(); len(s.Problems) != 1 || !strings.Contains(s.Problems[0], want) {
		t.Errorf("status: %q", s.Problems)
	}
	in := o.installerIn(stateDir)
	must.Do(t, makeChange(t.Context(), in, o.configDir, "install a"))
	if len(in.Warnings) != 1 || !strings.Contains(in.Warnings[0], want) {
		t.Errorf("install: warnings %q", in.Warnings)
	}
}

// TestVendorHasDispatcher verifies that a file with the dispatcher's name in the vendor's bin dir does not replace
// regcred's link.
func TestVendorHasDispatcher(t *testing.T) {
	o := newLayoutNode(t, "read-only bin dir")
	for _, name := range []string{"regcred-credential-provider", "regcred-credential-provider-2"} {
		o.writeFile("opt/plugins/"+name, "#!/bin/sh\n")
	}
	for range 2 {
		o.runChanges("install b")
		if s := o.status(); len(s.Problems) > 0 {
			t.Errorf("status: %q", s.Problems)
		}
	}
}
