// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package install_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/install"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/node"
)

const (
	oneProvider = `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: alpha
  matchImages: ["registry.example"]
  defaultCacheDuration: 1m
  apiVersion: credentialprovider.kubelet.k8s.io/v1
`
	twoProviders = oneProvider + `- name: beta
  matchImages: ["tokens.example"]
  defaultCacheDuration: 1m
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  tokenAttributes:
    serviceAccountTokenAudience: tokens.example
    cacheType: Token
    requireServiceAccount: true
`
)

// writeConfigs writes the configurations that the tests install. "a" has one provider. "b" has
// two providers, and the kubelet needs an entry for each. "c" is "a" with another executable.
func writeConfigs(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"a.yaml": oneProvider, "b.yaml": twoProviders, "c.yaml": oneProvider, "without/b.yaml": twoWithoutTokens,
		"a/alpha": "#!/bin/sh\n# a\n", "b/alpha": "#!/bin/sh\n# a\n", "b/beta": "#!/bin/sh\n# b\n", "c/alpha": "#!/bin/sh\n# c\n",
		"a/" + generation.DispatcherName: "#!/bin/sh\n# of a\n", "b/" + generation.DispatcherName: "#!/bin/sh\n# of b\n", "c/" + generation.DispatcherName: "#!/bin/sh\n# of a\n",
	} {
		name = filepath.Join(dir, name)
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o755)))
	}
	return dir
}

// twoWithoutTokens is twoProviders without tokenAttributes, for kubelets that do not support
// them.
var twoWithoutTokens, _, _ = strings.Cut(twoProviders, "  tokenAttributes:")

func desiredState(dir, name string) install.DesiredState {
	return install.DesiredState{
		Config: filepath.Join(dir, name+".yaml"), BinDir: filepath.Join(dir, name),
		Dispatcher: filepath.Join(dir, name, generation.DispatcherName), SkipExec: true,
	}
}

func installOptions() install.Options { return install.Options{Restart: true} }

// makeChange runs a change such as "install a", "rollback 1" or "uninstall".
func makeChange(ctx context.Context, in *install.Installer, dir, name string) (err error) {
	o := installOptions()
	switch name {
	case "rollback 1":
		_, err = in.Rollback(ctx, 1, o)
	case "uninstall":
		err = in.Uninstall(ctx, o)
	default:
		w := desiredState(dir, name[len("install "):])
		if name == "install b" && in.Setup.Version.Kubelet < "1.34" {
			w.Config = filepath.Join(dir, "without/b.yaml")
		}
		_, err = in.Install(ctx, w, o)
	}
	return err
}

// TestDesiredStateAndFeatureGate verifies that tokenAttributes in the format of kubelet 1.33
// are accepted only if the node's kubelet has version 1.33 and its feature gate is enabled.
func TestDesiredStateAndFeatureGate(t *testing.T) {
	for gate, refused := range map[bool]string{false: "kubelet 1.33 supports tokenAttributes only with the feature gate ", true: "<nil>"} {
		dir := writeConfigs(t)
		in := must.Get(newFakeNode(t, findLayout(t, "all read-only, old kubelet")).installerWithHook(nil))(t)
		in.Setup.Gates = map[string]bool{"KubeletServiceAccountTokenForCredentialProviders": gate}
		w := desiredState(dir, "b")
		must.Do(t, os.WriteFile(w.Config, []byte(strings.Replace(twoProviders, "    cacheType: Token\n", "", 1)), 0o600))
		if _, err := in.Plan(t.Context(), w); !strings.Contains(fmt.Sprint(err), refused) {
			t.Errorf("with the gate %v: %v", gate, err)
		}
	}
}

// TestDesiredStateForUnknownKubelet verifies the error if the kubelet's version is unknown. It
// must contain the version for which the configuration was validated, and the flag that sets
// the version.
func TestDesiredStateForUnknownKubelet(t *testing.T) {
	dir := writeConfigs(t)
	in, err := newFakeNode(t, findLayout(t, "all read-only, old kubelet")).installerWithHook(nil)
	if err != nil {
		t.Fatal(err)
	}
	in.Setup.Version = node.Version{Why: "it does not say"}
	w := desiredState(dir, "b")
	must.Do(t, os.WriteFile(w.Config, []byte(strings.Replace(twoProviders, "    cacheType: Token\n", "", 1)), 0o600))
	_, err = in.Plan(t.Context(), w)
	e, ok := errors.AsType[*node.HintError](err)
	if !ok || !strings.HasPrefix(e.Error(), "kubelet "+config.NewestKubelet+" would not start with this configuration, and this node's kubelet version is unknown (it does not say): ") || !strings.HasPrefix(e.Hint, "--kubelet-version ") {
		t.Errorf("got %+v", err)
	}
}

// TestCurrentConfigDirectory verifies that install can keep the current configuration, which is
// a directory in the generation, even if the node's kubelet does not support directories.
func TestCurrentConfigDirectory(t *testing.T) {
	dir := writeConfigs(t)
	in := must.Get(newFakeNode(t, findLayout(t, "all read-only, old kubelet")).installerWithHook(nil))(t)
	must.Get(in.Install(t.Context(), desiredState(dir, "a"), installOptions()))(t)
	w := install.DesiredState{Plugins: []string{filepath.Join(dir, "c/alpha")}, Dispatcher: desiredState(dir, "a").Dispatcher, SkipExec: true}
	if _, err := in.Install(t.Context(), w, installOptions()); err != nil {
		t.Error(err)
	}
}

// configDirectory creates a configuration directory with two files. One file has the format of
// the out-of-tree proposal.
func configDirectory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	former := "kind: credentialprovider\napiVersion: v1alpha1\nproviders:\n- name: former\n  imageMatchers: [former.example]\n  extraArgs: {secret: " + canary.EnvSecret + "}\n"
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(oneProvider), 0o600), os.WriteFile(filepath.Join(dir, "b.yaml"), []byte(former), 0o600)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestDesiredStateOfDirectory verifies that install accepts a configuration directory even if
// the node's kubelet does not. Each file in the directory is validated separately.
func TestDesiredStateOfDirectory(t *testing.T) {
	dir := writeConfigs(t)
	in := must.Get(newFakeNode(t, findLayout(t, "all read-only, old kubelet")).installerWithHook(nil))(t)
	w := desiredState(dir, "a")
	w.Config = configDirectory(t)
	if _, err := in.Plan(t.Context(), w); !strings.Contains(fmt.Sprint(err), "b.yaml:1:7: kind: kubelets do not support this kind") || strings.Contains(err.Error(), "directory") {
		t.Errorf("with a file of the predecessor: %v", err)
	}
	if err := os.WriteFile(filepath.Join(w.Config, "b.yaml"), []byte("apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Install(t.Context(), w, installOptions()); err != nil {
		t.Error(err)
	}
}

// TestDesiredStateWithoutSavedChanges verifies that NewManualConfig converts a directory to one
// file, and omits secret values if hidden is set.
func TestDesiredStateWithoutSavedChanges(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		w := must.Get(install.NewManualConfig(configDirectory(t), hidden))(t)
		cfg, err := config.Parse("f", []byte(w.Config))
		if err == nil {
			err = cfg.ValidateFor(config.Target{KubeletVersion: "1.33"})
		}
		if err != nil || len(cfg.Providers) != 2 || len(w.Providers) != 2 {
			t.Errorf("%v: %v", w.Config, err)
		}
		if shown := strings.Contains(fmt.Sprint(w), canary.EnvSecret); shown == hidden {
			t.Errorf("hidden: %t; shown: %t", hidden, shown)
		}
	}
}
