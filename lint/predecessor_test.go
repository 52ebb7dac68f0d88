// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/plugin"
)

// TestLintPredecessorExample verifies that the only finding for the example in the out-of-tree
// proposal is that the kubelet does not support it.
func TestLintPredecessorExample(t *testing.T) {
	path := filepath.FromSlash("../config/testdata/predecessor.yaml")
	want := []finding.Finding{{Rule: "predecessor-config", Severity: finding.SeverityWarning, File: path, Line: 1, Column: 7, Path: "kind",
		Message: "only regcred supports kind credentialprovider, so the kubelet does not start with this file", Fix: "run regcred convert"}}
	if diff := cmp.Diff(want, findingsIn(t, path)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestLintPredecessorPositions verifies that findings for an out-of-tree file contain the file's
// own field names and the right positions.
func TestLintPredecessorPositions(t *testing.T) {
	c, err := config.Parse("f", []byte(`apiVersion: v1alpha1
kind: RegistryCredentialConfig
providers:
- name: docker-credential-a
  imageMatchers: [a.example/*, "user:`+canary.PasswordSecret+`@c.example"]
  extraArgs:
    password: `+canary.EnvSecret+`
    home: ${HOME}
    http_proxy: http://proxy.example
- name: b
  imageMatchers: [b.example, b.example]
  extraArgs:
  - name: x
    value: $(X)
  - {name: api-token, value: `+canary.EnvSecret+`}
---
kind: Other
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range Check(c) {
		got = append(got, fmt.Sprintf("%d:%d %s %s: %s", f.Line, f.Column, f.Path, caseName(f), f.Message))
	}
	canary.AssertAbsent(t, "findings", fmt.Sprint(got))
	want := []string{
		"2:7 kind predecessor-config: only regcred supports kind RegistryCredentialConfig, so the kubelet does not start with this file",
		`4:9 providers[0].name docker-helper-name: "docker-credential-a" is named like a docker credential helper, which uses a different protocol from kubelet plugins`,
		`5:19 providers[0].imageMatchers[0] path-glob: "a.example/*" never matches, because globs do not work in paths, which are matched as prefixes`,
		`5:32 providers[0].imageMatchers[1] userinfo: "…@c.example": the kubelet ignores the text before the @, including any credential`,
		`7:5 providers[0].extraArgs.password secret-in-env: "PASSWORD" contains a secret that every user with read access to this file can see`,
		`8:11 providers[0].extraArgs.home unexpanded-variable: no shell expands the variable HOME in the value of "HOME"`,
		`9:5 providers[0].extraArgs.http_proxy proxied-metadata: "HTTP_PROXY" also sends metadata server requests through the proxy, unless NO_PROXY includes 169.254.169.254`,
		`11:30 providers[1].imageMatchers[1] duplicate-pattern: "b.example" is already in matchImages[0]`,
		`14:12 providers[1].extraArgs[0].value unexpanded-variable: no shell expands the variable X in the value of "X"`,
		`15:5 providers[1].extraArgs[1] secret-in-env: "API-TOKEN" contains a secret that every user with read access to this file can see`,
		"16:0  second-document: a second YAML document begins here, and regcred silently ignores it",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestLintPredecessorLeavesToValidate verifies that lint does not repeat errors of Validate.
func TestLintPredecessorLeavesToValidate(t *testing.T) {
	p := config.Provider{Name: "a", MatchImages: []string{"a.example", "b.example:80:80"}, APIVersion: plugin.OutOfTree, DefaultCacheDuration: new(time.Duration(0)),
		Env: []config.EnvVar{{Name: "", Value: plugin.NewSecret("x")}, {Name: "A=B", Value: plugin.NewSecret("x")}, {Name: "C", Value: plugin.NewSecret("x\x00")}, {Name: "C", Value: plugin.NewSecret("y")}}}
	if got := briefFindings(Check(&config.Config{Providers: []config.Provider{p}})); got != nil {
		t.Errorf("found %q", got)
	}
	p.APIVersion = plugin.V1
	if got := Check(&config.Config{Providers: []config.Provider{p}}); len(got) < 5 {
		t.Errorf("of a kubelet's provider found only %q", briefFindings(got))
	}
}

// TestLintHidesWhatFollowsAnEqualsSign verifies that findings do not contain the text after an
// equals sign in a variable's name. The text was probably meant as the value.
func TestLintHidesWhatFollowsAnEqualsSign(t *testing.T) {
	p := lintProvider("a", "a.example")
	p.Env = []config.EnvVar{{Name: "A_TOKEN=" + canary.EnvSecret, Value: plugin.NewSecret("x")}, {Name: "A_TOKEN=" + canary.EnvSecret, Value: plugin.NewSecret("${Y}")}, {Name: "B=" + canary.EnvSecret + ".password", Value: plugin.NewSecret("x")}}
	fs := Check(&config.Config{Providers: []config.Provider{p}})
	out, err := json.Marshal(fs)
	if err != nil || len(fs) < 5 {
		t.Fatalf("%d findings, %v", len(fs), err)
	}
	canary.AssertAbsent(t, "findings", string(out))
}
