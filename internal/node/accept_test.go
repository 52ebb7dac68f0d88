// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/must"
)

// kubelet133Config is a configuration that is valid only for kubelet 1.33 with the feature
// gate.
const kubelet133Config = `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: p
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: [a.example]
  defaultCacheDuration: 1m
  tokenAttributes: {serviceAccountTokenAudience: a, requireServiceAccount: true}
`

// validationResult validates kubelet133Config with ValidateConfig. It returns the version of the
// kubelet for which the configuration was validated and, if it is invalid, the error.
func validationResult(t *testing.T, n Node, o *Origin) string {
	t.Helper()
	o.Config = filepath.Join(t.TempDir(), "config.yaml")
	must.Do(t, os.WriteFile(o.Config, []byte(kubelet133Config), 0o600))
	cfg := must.Get(config.Load(o.Config))(t)
	kubelet, err := n.NewReader().ValidateConfig(t.Context(), o, cfg)
	if err != nil {
		return kubelet.KubeletVersion + ": " + err.Error()[strings.Index(err.Error(), "tokenAttributes"):]
	}
	if got := cfg.Providers[0].TokenAttributes.CacheType; got != config.CachePerToken {
		t.Errorf("its cacheType is %q", got)
	}
	return kubelet.KubeletVersion
}

const (
	tokenGate   = "KubeletServiceAccountTokenForCredentialProviders"
	withoutGate = "1.33.4: tokenAttributes: kubelet 1.33 supports tokenAttributes only with the feature gate " + tokenGate
	byNewest    = config.NewestKubelet + ": tokenAttributes.cacheType: missing: "
)

// TestAcceptInstalled verifies that a configuration that the newest kubelet rejects is
// validated for the version and feature gates of the node's kubelet.
func TestAcceptInstalled(t *testing.T) {
	for name, tt := range map[string]struct{ flags, config, dropIn, want string }{
		"no gate":          {want: withoutGate},
		"configuration":    {config: "featureGates: {" + tokenGate + ": true}", want: "1.33.4"},
		"drop-in":          {config: "featureGates: {Other: true}", dropIn: "featureGates: {" + tokenGate + ": true}", want: "1.33.4"},
		"flag":             {flags: "--feature-gates=Other=false,Off=false --feature-gates " + tokenGate + "=true", want: "1.33.4"},
		"taken back":       {config: "featureGates: {" + tokenGate + ": true}", dropIn: "featureGates: null", want: withoutGate},
		"alpha gates back": {config: "featureGates: {AllAlpha: true, " + tokenGate + ": false}", dropIn: "featureGates: {" + tokenGate + ": null}", want: "1.33.4"},
		"null in the file": {config: "featureGates: {AllAlpha: true, " + tokenGate + ": null}", dropIn: "a: b", want: withoutGate},
		"other case":       {config: "FeatureGates: {" + tokenGate + ": true}", want: withoutGate},
		"a deep drop-in":   {flags: "--config-dir=/deep", dropIn: "featureGates: {" + tokenGate + ": true}", want: "1.33.4"},
		"drop-in's case":   {dropIn: "featuregates: {" + tokenGate + ": true}", want: "1.33.4"},
		"drop-in's cases":  {dropIn: "FeatureGates: {" + tokenGate + ": false}\nfeatureGates: {" + tokenGate + ": true}", want: "1.33.4"},
		"a link":           {flags: "--config-dir=/l", dropIn: "featureGates: {" + tokenGate + ": true}", want: withoutGate},
		"a link and slash": {flags: "--config-dir=/l/", dropIn: "featureGates: {" + tokenGate + ": true}", want: "1.33.4"},
		"a drop-in itself": {flags: "--config-dir=/d/1.conf", dropIn: "featureGates: {" + tokenGate + ": true}", want: "1.33.4"},
		"flag before file": {flags: "--feature-gates=" + tokenGate + "=false", config: "featureGates: {" + tokenGate + ": true}", want: withoutGate},
	} {
		t.Run(name, func(t *testing.T) {
			n := Node{Foreign: true, Root: createNode(t, txtar.Parse([]byte("-- exec /usr/bin/kubelet --\n#!/bin/sh\necho Kubernetes v1.33.4\n"+
				"-- /lib/systemd/system/kubelet.service --\n[Service]\nExecStart=/usr/bin/kubelet --config=/c.yaml --config-dir=/d "+tt.flags+"\n"+
				"-- /c.yaml --\n"+tt.config+"\n-- link /l --\nd\n-- /d/1.conf --\n"+tt.dropIn+"\n-- /deep/"+strings.Repeat("d/", 20)+"1.conf --\n"+tt.dropIn+"\n")))}
			if got := validationResult(t, n, &Origin{Discovered: true}); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if got := validationResult(t, n, &Origin{}); got != tt.want { // such as a file that a message of doctor names
				t.Errorf("what was given: got %q, want %q", got, tt.want)
			}
			for version, want := range map[string]string{"1.37": byNewest, "1.33": "1.33"} {
				o := &Origin{Target: &config.Target{KubeletVersion: version, FeatureGates: map[string]bool{tokenGate: true}}}
				if got := validationResult(t, n, o); !strings.HasPrefix(got, want) {
					t.Errorf("--kubelet-version %s: got %q, want %q", version, got, want)
				}
			}
			if got := validationResult(t, Node{Foreign: true, Root: t.TempDir()}, &Origin{}); !strings.HasPrefix(got, byNewest) {
				t.Errorf("without a kubelet: got %q", got)
			}
		})
	}
}

// TestLoadInterrupted verifies that Load returns when its context ends, even if the kubelet's
// --version command hangs.
func TestLoadInterrupted(t *testing.T) {
	n := Node{Foreign: true, Root: createNode(t, txtar.Parse([]byte("-- exec /usr/bin/kubelet --\n#!/bin/sh\nexec sleep 1000\n"+
		"-- /lib/systemd/system/kubelet.service --\n[Service]\nExecStart=/usr/bin/kubelet\n-- /of133.yaml --\n"+kubelet133Config)))}
	gaveUp := errors.New("gave up")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, gaveUp)
	defer cancel()
	start := time.Now()
	_, err := (&Origin{Config: filepath.Join(n.Root, "of133.yaml"), Unit: "kubelet.service", reader: n.NewReader()}).Load(ctx)
	if took := time.Since(start); !errors.Is(err, gaveUp) || took > versionTimeout/2 {
		t.Errorf("got %v after %v", err, took)
	}
}

// TestLoadUnknownKubelet verifies that an error states why the kubelet's version is unknown, or
// which files could not be read.
func TestLoadUnknownKubelet(t *testing.T) {
	n := Node{Foreign: true, Root: createNode(t, txtar.Parse([]byte("-- exec /usr/bin/kubelet --\n#!/bin/sh\nexit 3\n"+
		"-- /lib/systemd/system/kubelet.service --\n[Service]\nExecStart=/usr/bin/kubelet\n-- /of133.yaml --\n"+kubelet133Config)))}
	file := filepath.Join(n.Root, "of133.yaml")
	const why = " (assuming kubelet version " + config.NewestKubelet + ", because this node's kubelet version is unknown: /usr/bin/kubelet --version: exit status 3)"
	for unit, want := range map[string]string{"kubelet.service": why, "": ""} {
		_, err := (&Origin{Config: file, Unit: unit, reader: n.NewReader()}).Load(t.Context())
		e, ok := errors.AsType[*HintError](err)
		if want := "the kubelet would not start with this configuration" + want + `; fix the configuration and check it with "regcred validate ` + file + `"`; !ok || e.Hint != want {
			t.Errorf("unit %q: got %#v, want the hint %q", unit, err, want)
		}
	}
	s := Setup{Version: Version{Kubelet: "1.33.4"}, Unread: []string{"/c.yaml", "/d"}}
	cfg := must.Get(config.Load(file))(t)
	r := n.NewReader()
	r.setup = &s
	target, err := r.ValidateConfig(t.Context(), &Origin{Config: file, Unit: "kubelet.service"}, cfg)
	if want := " (the check might be incomplete, because this user cannot read /c.yaml, /d)"; err == nil || target.Caveat() != want || target.KubeletVersion != "1.33.4" {
		t.Errorf("got %v, %v, %q", err, target, target.Caveat())
	}
}

// TestValidateCommand verifies that the command contains the feature gates that affect
// providers. A gate with wrong case is included, because the kubelet rejects it.
func TestValidateCommand(t *testing.T) {
	got := ValidateCommand(config.Target{KubeletVersion: "1.33.4", FeatureGates: map[string]bool{tokenGate: true, "allBeta": false, "Other": true}}, "/etc/a b.yaml")
	if want := "regcred validate --kubelet-version 1.33.4 --feature-gates " + tokenGate + "=true,allBeta=false '/etc/a b.yaml'"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestAcceptRunning verifies that a configuration is validated for the executable, feature
// gates and drop-ins of a running kubelet.
func TestAcceptRunning(t *testing.T) {
	dir := sharedDir(t)
	putFile(t, filepath.Join(dir, "kubelet.yaml"), "featureGates: {"+tokenGate+": true}\n")
	putFile(t, filepath.Join(dir, "d/1.conf"), "featureGates: {"+tokenGate+": true}\n")
	must.Do(t, os.Symlink("d", filepath.Join(dir, "l")))
	relative := must.Get(filepath.Rel("/", dir))(t)
	for _, tt := range []struct {
		want string
		args []string
	}{
		{withoutGate, nil},
		{"1.33.4", []string{"--config", relative + "/kubelet.yaml"}},
		{"1.33.4", []string{"--config-dir=" + relative + "/l/"}},
		{withoutGate, []string{"--config-dir=" + relative + "/l"}},
	} {
		want, args := tt.want, tt.args
		cmd := startKubelet(t, "", nil, args...)
		must.Do(t, os.Remove(cmd.Path))
		if got := validationResult(t, Node{}, &Origin{KubeletPID: cmd.Process.Pid}); got != want {
			t.Errorf("with %q: got %q, want %q", args, got, want)
		}
	}
	other := startProgram(t, copyTestBinary(t, dir, "other"), "", nil)
	if got := validationResult(t, Node{Root: dir}, &Origin{KubeletPID: other.Process.Pid}); !strings.HasPrefix(got, byNewest) {
		t.Errorf("a program that is no kubelet: got %q", got)
	}
}

// TestVersionRoot verifies that kubeletVersion only runs a kubelet of this machine, with the
// root directory "" or "/".
func TestVersionRoot(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "kubelet")
	must.Do(t, os.WriteFile(program, []byte("#!/bin/sh\necho Kubernetes v1.33.4\n"), 0o700))
	for root, want := range map[string]string{"": "1.33.4", "/": "1.33.4", dir: ""} {
		if got := (Node{Root: root}).kubeletVersion(t.Context(), program); got.Kubelet != want {
			t.Errorf("root %q: got %+v, want %q", root, got, want)
		}
	}
}

// copyTestBinary copies the test binary to dir and returns the copy's path.
func copyTestBinary(t *testing.T, dir, name string) string {
	t.Helper()
	self, err := os.Executable()
	if err = errors.Join(err, copyFile(self, filepath.Join(dir, name))); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}
