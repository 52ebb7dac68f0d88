// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package node

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

// TestCheckUnits verifies that findings contain the file and line of an invalid Environment=
// setting, but not its value.
func TestCheckUnits(t *testing.T) {
	secret := canary.PasswordSecret
	for value, want := range map[string]string{
		`HTTPS_PROXY=http://u:` + secret + `@proxy:1`: "",
		`"A=1 2" 'B=3'`: "",
		`"A=1" B=%n`:    "",
		`A=`:            "",
		`A=a"b`:         `Environment="NAME=VALUE"`,
		"\u201dHTTPS_PROXY=http://u:" + secret + `@proxy:1"`:      `use plain quotes: Environment="HTTPS_PROXY=VALUE"`,
		"\u201cHTTPS_PROXY=http://u:" + secret + "@proxy:1\u201d": `use plain quotes: Environment="HTTPS_PROXY=VALUE"`,
		"\u201cA=b " + secret + "\u201d":                          `use plain quotes: Environment="A=VALUE"`,
		`ARGS=--a ` + secret:                                      "quote the whole assignment",
		secret + `-x=1`:                                           `Environment="NAME=VALUE"`,
		`1A=b`:                                                    `Environment="NAME=VALUE"`,
	} {
		dir := t.TempDir()
		putFile(t, filepath.Join(dir, "lib/systemd/system/containerd.service"), "[Service]\n\nEnvironment="+value+"\n")
		var got []string
		for _, f := range (Node{Root: dir}).NewReader().CheckUnits(t.Context()) {
			got = append(got, fmt.Sprintf("%s:%d: %s; %s", strings.TrimPrefix(f.File, dir), f.Line, f.Message, f.Fix))
		}
		text := strings.Join(got, "\n")
		canary.AssertAbsent(t, "a fault", text)
		if (text == "") != (want == "") || !strings.Contains(text, want) || want != "" && !strings.HasPrefix(text, "/lib/systemd/system/containerd.service:3: ") {
			t.Errorf("%s: got %q, want %q", value, text, want)
		}
	}
}

// TestCheckUnitsTrees verifies that CheckUnits has no findings for the valid nodes in testdata.
func TestCheckUnitsTrees(t *testing.T) {
	for file, archive := range loadNodeTrees(t) {
		if strings.HasPrefix(filepath.Base(file), "bad-") {
			continue
		}
		if got := (Node{Root: createNode(t, archive)}).NewReader().CheckUnits(t.Context()); len(got) > 0 {
			t.Errorf("%s: %+v", file, got)
		}
	}
}

func putFile(t *testing.T, file, text string) {
	t.Helper()
	must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)))
}

// TestCheckUnitsWord verifies that CheckUnits reports a kubelet argument that begins with a
// typographic dash.
func TestCheckUnitsWord(t *testing.T) {
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "lib/systemd/system/kubelet.service"), "[Service]\nEnvironmentFile=/etc/default/kubelet\nExecStart=/usr/bin/kubelet $ARGS\n")
	putFile(t, filepath.Join(dir, "etc/default/kubelet"), "# ours\nARGS=--v=2 \u2013\u2013node-ip=1\n")
	got := Node{Root: dir}.NewReader().CheckUnits(t.Context())
	if len(got) != 1 || got[0].File != filepath.Join(dir, "etc/default/kubelet") || got[0].Line != 2 {
		t.Errorf("got %+v", got)
	}
}

// TestGateSet verifies that FeatureGateOccurrences returns all settings of a feature gate, and no
// settings of other gates.
func TestGateSet(t *testing.T) {
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "lib/systemd/system/kubelet.service"), "[Service]\nExecStart=/usr/bin/kubelet --feature-gates=A=true,Gate=true --config=/c.yaml \\\n  --config-dir=/d\n")
	putFile(t, filepath.Join(dir, "c.yaml"), "# Gate: no\nfeatureGates:\n  GateB: true\n  Gate: true\n")
	putFile(t, filepath.Join(dir, "d/1.conf"), `{"featureGates": {"X": true, "Gate": false}}`+"\n")
	var got []string
	for _, g := range (Node{Root: dir}).NewReader().FeatureGateOccurrences(t.Context(), "Gate") {
		got = append(got, fmt.Sprintf("%s:%d", strings.TrimPrefix(g.File, dir), g.Line))
	}
	if want := []string{"/lib/systemd/system/kubelet.service:2", "/c.yaml:4", "/d/1.conf:1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestRancherFeatureGates verifies the feature gates of a k3s node, and where they are set.
// kubelet-arg in a later file replaces earlier values.
func TestRancherFeatureGates(t *testing.T) {
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "etc/systemd/system/k3s.service"), "[Service]\nExecStart=/usr/local/bin/k3s server\n")
	putFile(t, filepath.Join(dir, "etc/rancher/k3s/config.yaml"), "kubelet-arg: feature-gates=Gone=true\n")
	putFile(t, filepath.Join(dir, "etc/rancher/k3s/config.yaml.d/1.yaml"), "kubelet-arg:\n- feature-gates=Gate=true\n")
	putFile(t, filepath.Join(dir, "etc/rancher/k3s/config.yaml.d/2.yaml"), "kubelet-arg+:\n- v=2\n")
	putFile(t, filepath.Join(dir, "var/lib/rancher/k3s/agent/etc/kubelet.conf.d/9.conf"), "featureGates: {Gate: false, Other: true}\n")
	n := Node{Root: dir}.NewReader()
	s, err := n.Setup(t.Context())
	if want := map[string]bool{"Gate": true, "Other": true}; err != nil || !maps.Equal(s.Gates, want) {
		t.Errorf("got %v, %v, want %v", s.Gates, err, want)
	}
	var got []string
	for _, g := range n.FeatureGateOccurrences(t.Context(), "Gate") {
		got = append(got, fmt.Sprintf("%s:%d", strings.TrimPrefix(g.File, dir), g.Line))
	}
	if want := []string{"/etc/rancher/k3s/config.yaml.d/1.yaml:1", "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d/9.conf:1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestRancherArgs verifies that kubelet arguments and paths from several files are merged as in
// k3s.
func TestRancherArgs(t *testing.T) {
	for name, tt := range map[string]struct {
		first, second string
		gates         map[string]bool
		config        string // expected path; "" means the default
	}{
		"added":           {first: "kubelet-arg: feature-gates+=A=true", gates: map[string]bool{"A": true}},
		"put before":      {first: "kubelet-arg: [feature-gates=A=true, feature-gates-=A=false, --feature-gates-=B=true]", gates: map[string]bool{"A": true, "B": true}},
		"without a value": {first: "kubelet-arg: [feature-gates, feature-gates=A=true]", gates: map[string]bool{"A": true}},
		"none by now":     {first: "kubelet-arg: feature-gates=A=true", second: "kubelet-arg: []", gates: map[string]bool{}},
		"nothing added":   {first: "kubelet-arg: feature-gates=A=true", second: "kubelet-arg+:", gates: map[string]bool{"A": true}},
		"path added":      {first: "kubelet-arg: image-credential-provider-config+=/x", config: "/x", gates: map[string]bool{}},
		"path again":      {first: "image-credential-provider-config: /x", second: "image-credential-provider-config: []", gates: map[string]bool{}},
		"no path":         {first: "image-credential-provider-config: /x", second: "image-credential-provider-config:", config: "none", gates: map[string]bool{}},
		"no data dir":     {first: "data-dir:", gates: map[string]bool{}},
	} {
		dir := t.TempDir()
		putFile(t, filepath.Join(dir, "etc/systemd/system/k3s.service"), "[Service]\nExecStart=/usr/local/bin/k3s server\n")
		putFile(t, filepath.Join(dir, "etc/rancher/k3s/config.yaml"), tt.first+"\n")
		putFile(t, filepath.Join(dir, "etc/rancher/k3s/config.yaml.d/1.yaml"), tt.second+"\n")
		s := must.Get(Node{Root: dir}.NewReader().Setup(t.Context()))(t)
		want := cmp.Or(tt.config, rancherConfig)
		if !maps.Equal(s.Gates, tt.gates) || cmp.Or(s.Config.Path, "none") != want || s.Rancher.DataDir != "/var/lib/rancher/k3s" {
			t.Errorf("%s: got %v, %q, %q", name, s.Gates, s.Config.Path, s.Rancher.DataDir)
		}
	}
}

// TestBothRoles verifies that Setup uses the enabled unit if a node has units for the k3s
// server and agent.
func TestBothRoles(t *testing.T) {
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "etc/systemd/system/k3s.service"), "[Service]\nExecStart=/usr/local/bin/k3s server\n")
	putFile(t, filepath.Join(dir, "etc/systemd/system/k3s-agent.service"), "[Service]\nExecStart=/usr/local/bin/k3s agent\n")
	putFile(t, filepath.Join(dir, "etc/systemd/system/multi-user.target.wants/k3s.service"), "")
	if s, err := (Node{Root: dir}).NewReader().Setup(t.Context()); err != nil || s.Kind != K3sServer {
		t.Errorf("got %+v, %v", s, err)
	}
}
