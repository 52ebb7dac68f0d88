// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
)

const header = "apiVersion: regcred.dev/v1alpha1\nkind: PullSecretConfig\n"

const selected = "namespaces: {matchLabels: {regcred.dev/pull-secrets: enabled}}\n"

func TestParse(t *testing.T) {
	got := must.Get(Parse("f.yaml", []byte(header+selected+`
serviceAccounts: [app, builder]
removalGracePeriod: 1h
rules:
- registries: [r.example, index.docker.io, "localhost:5000"]
- namespaces: {matchLabels: {team: b}}
  images: [other.example/b/app:v1, nginx]
`)))(t)
	want := &File{
		SecretName: "regcred-pull", Namespaces: Labels{"regcred.dev/pull-secrets": "enabled"},
		ServiceAccounts: []string{"app", "builder"}, RemovalGracePeriod: time.Hour,
		Rules: []Rule{
			{Targets: []Target{{Registry: "r.example"}, {Registry: "docker.io"}, {Registry: "localhost:5000"}}},
			{Namespaces: Labels{"team": "b"}, Targets: []Target{{Image: "other.example/b/app"}, {Image: "docker.io/library/nginx"}}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"regcred-pull", "regcred-pull-app", "regcred-pull-builder"}, got.SecretNames()); diff != "" {
		t.Errorf("names: -want +got\n%s", diff)
	}
}

func TestParseErrors(t *testing.T) {
	rules := "rules: [{registries: [r.example]}]\n"
	for _, tt := range []struct{ name, data, want string }{
		{"empty", "", "f.yaml: the file is empty"},
		{"syntax", "a: [", "f.yaml:1: did not find expected node content"},
		{"list", "[]", "f.yaml:1:1: must be a mapping"},
		{"two documents", header + selected + rules + "---\na: b\n", "f.yaml:6:1: only one document is allowed"},
		{"kind", "apiVersion: regcred.dev/v1alpha1\nkind: Pullsecretconfig\n" + selected + rules, `f.yaml:2:7: kind: must be PullSecretConfig: "Pullsecretconfig"`},
		{"version", "apiVersion: regcred.dev/v1\nkind: PullSecretConfig\n" + selected + rules, `f.yaml:1:13: apiVersion: must be regcred.dev/v1alpha1: "regcred.dev/v1"`},
		{"no rules", header + selected, "f.yaml: rules: required"},
		{"no namespaces", header + rules, "f.yaml: namespaces: required"},
		{"no labels", header + "namespaces: {matchLabels: {}}\n" + rules, "f.yaml:3:13: namespaces: select namespaces with at least one label: in a namespace without it, nothing is written"},
		{"expressions", header + "namespaces: {matchExpressions: []}\n" + rules, "f.yaml:3:14: namespaces.matchExpressions: unknown field; known are matchLabels"},
		{"label key", header + "namespaces: {matchLabels: {a b: c}}\n" + rules, `f.yaml:3:28: namespaces.matchLabels[a b]: not a label key: `},
		{"label value", header + "namespaces: {matchLabels: {a: true}}\n" + rules, "f.yaml:3:31: namespaces.matchLabels[a]: must be a string"},
		{"case", header + selected + "Rules: []\n", "f.yaml:4:1: Rules: unknown field; known are apiVersion"},
		{"duplicate", header + selected + rules + rules, "f.yaml:5:1: rules: duplicate field"},
		{"null", header + selected + "rules: null\n", "f.yaml:4:8: rules: must be a list"},
		{"alias", header + selected + "rules: &a [{registries: [r.example]}]\nserviceAccounts: *a\n", "f.yaml:5:18: serviceAccounts: must be a list"},
		{"empty rule", header + selected + "rules: [{}]\n", "f.yaml:4:9: rules[0]: list at least one registry or image"},
		{"URL", header + selected + "rules: [{registries: [https://r.example]}]\n", `f.yaml:4:23: rules[0].registries[0]: not a registry: write HOST or HOST:PORT, or list an image in images: "https://r.example"`},
		{"pattern", header + selected + "rules: [{images: ['*.example/a']}]\n", `f.yaml:4:19: rules[0].images[0]: not an image: write HOST/PATH, without a pattern: "*.example/a"`},
		{"twice", header + selected + "rules: [{registries: [r.example, r.example]}]\n", `f.yaml:4:34: rules[0].registries[1]: listed twice: "r.example"`},
		{"name of tutorials", header + "secretName: regcred\n" + selected + rules, `f.yaml:3:13: secretName: many tutorials create a Secret of this name: choose another one, such as regcred-pull: "regcred"`},
		{"name", header + "secretName: A\n" + selected + rules, `f.yaml:3:13: secretName: not a valid name: `},
		{"duration", header + selected + rules + "removalGracePeriod: 3\n", "f.yaml:5:21: removalGracePeriod: must be a string"},
		{"negative duration", header + selected + rules + "removalGracePeriod: -3h\n", `f.yaml:5:21: removalGracePeriod: not a duration: write a number with a unit, such as "24h": "-3h"`},
		{"long account", header + selected + rules + "serviceAccounts: [" + strings.Repeat("a", 250) + "]\n", "the Secret's name would have 263 characters; the limit is 253"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(tt.data))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(header + selected + "rules: [{registries: [r.example]}]\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("? {a: b}\n: <<\n---\n!!binary a"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse("f", data)
		if (file == nil) == (err == nil) {
			t.Errorf("%v, %v", file, err)
		}
		if err == nil && !IsPullSecretConfig(data) {
			t.Error("a valid file is not recognized")
		}
	})
}
