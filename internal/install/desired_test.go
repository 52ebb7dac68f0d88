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

// wishes makes what is installed in these tests: "a" has one provider, "b" two
// with an entry each, and "c" another executable for that of "a".
func wishes(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"a.yaml": oneProvider, "b.yaml": twoProviders, "c.yaml": oneProvider, "without/b.yaml": twoWithoutTokens,
		"a/alpha": "#!/bin/sh\n# a\n", "b/alpha": "#!/bin/sh\n# a\n", "b/beta": "#!/bin/sh\n# b\n", "c/alpha": "#!/bin/sh\n# c\n",
		"a/" + generation.DispatcherName: "#!/bin/sh\n# of a\n", "b/" + generation.DispatcherName: "#!/bin/sh\n# of b\n", "c/" + generation.DispatcherName: "#!/bin/sh\n# of a\n",
	} {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// twoWithoutTokens is for a kubelet that knows none.
var twoWithoutTokens, _, _ = strings.Cut(twoProviders, "  tokenAttributes:")

func wish(dir, name string) install.Desired {
	return install.Desired{
		Config: filepath.Join(dir, name+".yaml"), BinDir: filepath.Join(dir, name),
		Dispatcher: filepath.Join(dir, name, generation.DispatcherName), SkipExec: true,
	}
}

func options() install.Options { return install.Options{Restart: true} }

// do makes one change, by its name: "install a", "rollback 1", "uninstall".
func do(ctx context.Context, in *install.Installer, dir, name string) (err error) {
	o := options()
	switch name {
	case "rollback 1":
		_, err = in.Rollback(ctx, 1, o)
	case "uninstall":
		err = in.Uninstall(ctx, o)
	default:
		w := wish(dir, name[len("install "):])
		if name == "install b" && in.Setup.Version.Kubelet < "1.34" {
			w.Config = filepath.Join(dir, "without/b.yaml")
		}
		_, err = in.Install(ctx, w, o)
	}
	return err
}

// TestWishForGate: tokenAttributes as kubelet 1.33 has them are installed where that
// kubelet is told of the feature gate, and refused where it is not.
func TestWishForGate(t *testing.T) {
	for gate, refused := range map[bool]string{false: "kubelet 1.33 supports tokenAttributes only with the feature gate ", true: "<nil>"} {
		dir := wishes(t)
		in, err := newWorld(t, layoutNamed(t, "all read-only, old kubelet")).installer(nil)
		if err != nil {
			t.Fatal(err)
		}
		in.Setup.Gates = map[string]bool{"KubeletServiceAccountTokenForCredentialProviders": gate}
		w := wish(dir, "b")
		if err := os.WriteFile(w.Config, []byte(strings.Replace(twoProviders, "    cacheType: Token\n", "", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := in.Plan(t.Context(), w); !strings.Contains(fmt.Sprint(err), refused) {
			t.Errorf("with the gate %v: %v", gate, err)
		}
	}
}

// TestWishForUnknown: where nobody knows the node's kubelet, it is said which one judges,
// and how to name it.
func TestWishForUnknown(t *testing.T) {
	dir := wishes(t)
	in, err := newWorld(t, layoutNamed(t, "all read-only, old kubelet")).installer(nil)
	if err != nil {
		t.Fatal(err)
	}
	in.Setup.Version = node.Version{Why: "it does not say"}
	w := wish(dir, "b")
	if err := os.WriteFile(w.Config, []byte(strings.Replace(twoProviders, "    cacheType: Token\n", "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = in.Plan(t.Context(), w)
	e, ok := errors.AsType[*node.HintError](err)
	if !ok || !strings.HasPrefix(e.Error(), "kubelet "+config.NewestKubelet+" would not start with this configuration, and this node's kubelet version is unknown (it does not say): ") || !strings.HasPrefix(e.Hint, "--kubelet-version ") {
		t.Errorf("got %+v", err)
	}
}

// TestWishOfCurrent: what a generation has is a directory, of which the kubelet of
// this node knows nothing: the dispatcher reads it.
func TestWishOfCurrent(t *testing.T) {
	dir := wishes(t)
	in, err := newWorld(t, layoutNamed(t, "all read-only, old kubelet")).installer(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Install(t.Context(), wish(dir, "a"), options()); err != nil {
		t.Fatal(err)
	}
	w := install.Desired{Plugins: []string{filepath.Join(dir, "c/alpha")}, Dispatcher: wish(dir, "a").Dispatcher, SkipExec: true}
	if _, err := in.Install(t.Context(), w, options()); err != nil {
		t.Error(err)
	}
}

// directory makes a configuration of two files, one of the predecessor.
func directory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	former := "kind: credentialprovider\napiVersion: v1alpha1\nproviders:\n- name: former\n  imageMatchers: [former.example]\n  extraArgs: {secret: " + canary.EnvSecret + "}\n"
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(oneProvider), 0o600), os.WriteFile(filepath.Join(dir, "b.yaml"), []byte(former), 0o600)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestWishOfDirectory: so is what is given, such as by the chart; each of its files
// is judged as one of the kubelet's.
func TestWishOfDirectory(t *testing.T) {
	dir := wishes(t)
	in, err := newWorld(t, layoutNamed(t, "all read-only, old kubelet")).installer(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := wish(dir, "a")
	w.Config = directory(t)
	if _, err := in.Plan(t.Context(), w); !strings.Contains(fmt.Sprint(err), "b.yaml:1:7: kind: kubelets do not support this kind") || strings.Contains(err.Error(), "directory") {
		t.Errorf("with a file of the predecessor: %v", err)
	}
	if err := os.WriteFile(filepath.Join(w.Config, "b.yaml"), []byte("apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Install(t.Context(), w, options()); err != nil {
		t.Error(err)
	}
}

// TestWishForDirectory: a node that does not keep a change is told of one file that a
// kubelet reads, and if values are to be hidden of none.
func TestWishForDirectory(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		w, err := install.NewManualChange(directory(t), hidden)
		if err != nil {
			t.Fatal(err)
		}
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
