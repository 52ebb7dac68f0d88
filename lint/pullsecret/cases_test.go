// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/lint/internal/rules"
)

// findingCases gives names to the different results of a rule, for use in tests. text is a part of the
// result's message or fix.
var findingCases = []struct{ name, rule, text string }{
	{"docker-auth", "docker-config-invalid", "the value is base64-encoded twice" + rejectionEffect},
	{"docker-auth", "docker-config-invalid", "it is not base64" + rejectionEffect},
	{"docker-config-syntax", "docker-config-invalid", "not JSON: it is empty" + rejectionEffect},
	{"docker-config-type", "docker-config-invalid", " is expected" + rejectionEffect},
	{"docker-config-encoded", "docker-config-invalid", "has an extra layer of base64 encoding" + rejectionEffect},
	{"docker-config-form", "docker-config-invalid", "this .dockercfg is in the config.json format: the kubelet treats auths as a registry name and finds no credential"},
	{"docker-config-form", "docker-config-invalid", "this config.json is in the .dockercfg format: the kubelet reads credentials only from auths and finds none"},
	{"docker-config-level", "docker-config-invalid", "auths is nested in auths: the kubelet treats the inner auths as a registry name and finds no credential"},
	{"docker-config-level", "docker-config-invalid", "auths contains a credential without a registry name, so the kubelet ignores it"},
	{"docker-config-level", "docker-config-invalid", " is a credential outside auths, so the kubelet ignores it"},
	{"docker-config-level", "docker-config-invalid", "these credentials are under a name other than auths, so the kubelet ignores them"},
	{"docker-config-level", "docker-config-invalid", "auths is one level too deep: the kubelet reads it only at the top level"},
	{"docker-config-field", "docker-config-nonstandard", "unknown field, which kubelets and docker ignore"},
	{"docker-config-case", "docker-config-nonstandard", "kubelets and docker ignore the case of this field name, but other programs might not"},
	{"docker-auth-wrapped", "docker-config-nonstandard", " has line breaks, which kubelets and docker ignore but other clients might reject"},
	{"docker-robot", "docker-config-nonstandard", "Harbor's robot accounts are named robot$NAME"},
	{"docker-config-empty", "no-credentials", "the file has no credentials, so it has no effect on pulls"},
	{"secret-no-pull-secret", "no-credentials", " and no docker config, so it is not a pull secret"},
	{"docker-same-key", "docker-duplicate", ", but their credentials differ: it tries both in random order"},
	{"secret-twice", "docker-duplicate", "the key is set in both data and stringData, and stringData takes precedence"},
	{"docker-duplicate", "docker-duplicate", "auths is also set above, and this null value discards all its credentials"},
	{"docker-duplicate", "docker-duplicate", " is repeated below: the last entry wins, and this credential is lost"},
	{"docker-duplicate", "docker-duplicate", " is repeated below, and the last value wins"},
	{"docker-no-login", "docker-no-password", " has neither username nor password, and the kubelet ignores the field "},
	{"docker-no-login", "docker-no-password", " has neither a user name nor a password: " + anonymousEffect},
	{"docker-no-password", "docker-no-password", " has a user name but no password: containerd does not send it, CRI-O sends an empty password"},
	{"docker-token-alone", "docker-unusable-credential", ", which kubelets ignore, but no "},
	{"docker-no-user", "docker-unusable-credential", " has a password without a user name: " + anonymousEffect},
	{"docker-json-key", "docker-unusable-credential", " is a base64-encoded key, but the user name _json_key requires a plain key"},
	{"docker-json-key", "docker-unusable-credential", " is a plain key, but the user name _json_key_base64 requires a base64-encoded key"},
	{"docker-json-key", "docker-unusable-credential", " is not a service account key in JSON, so the registry rejects it"},
	{"docker-blank", "docker-suspicious-credential", " begins or ends with a space, which is sent to the registry"},
	{"docker-placeholder", "docker-suspicious-credential", " looks like an unfilled placeholder"},
	{"docker-password-encoded", "docker-suspicious-credential", " is a base64-encoded user:password pair, so the registry rejects it"},
	{"secret-yaml", "secret-invalid", "cannot read this Secret: "},
	{"secret-base64", "secret-invalid", ", so the API server rejects the Secret"},
}

// caseName returns the name in cases that matches a finding. If cases does not contain the
// finding's rule, it returns the name of the rule.
func caseName(f finding.Finding) string {
	unknown := f.Rule
	for _, c := range findingCases {
		if c.rule != f.Rule {
			continue
		}
		if strings.Contains(f.Message+"\n"+f.Fix, c.text) {
			return c.name
		}
		unknown = "unknown case of " + f.Rule
	}
	return unknown
}

// TestDocumented compares the rules with the headings of docs/lint/README.md.
func TestDocumented(t *testing.T) {
	all := map[string]finding.Severity{}
	collectSeverities(t, all, configRules())
	collectSeverities(t, all, authEntryRules())
	collectSeverities(t, all, secretRules())
	collectSeverities(t, all, manifestRules())
	doc := must.Get(os.ReadFile("../../docs/lint/README.md"))(t)
	_, text, found := strings.Cut(string(doc), "\n## Docker configs and pull secrets\n")
	if !found {
		t.Fatal("the section for docker configs is missing")
	}
	headings := map[string]finding.Severity{}
	for _, m := range regexp.MustCompile("(?m)^### `([a-z0-9-]+)` \\((error|warning|info)\\)$").FindAllStringSubmatch(text, -1) {
		headings[m[1]] = finding.Severity(m[2])
	}
	if diff := cmp.Diff(all, headings); diff != "" {
		t.Errorf("rules (-) and headings (+):\n%s", diff)
	}
	if names := slices.Sorted(maps.Keys(all)); !slices.Equal(Rules(), names) {
		t.Errorf("Rules() is %q, want %q", Rules(), names)
	}
}

// collectSeverities adds the severities of rules to all. It fails the test if rules with the same name have
// different severities.
func collectSeverities[T any](t *testing.T, all map[string]finding.Severity, list []rules.Rule[T]) {
	t.Helper()
	for _, r := range list {
		if other, ok := all[r.Name]; ok && other != r.Severity {
			t.Errorf("%s is %s and %s", r.Name, other, r.Severity)
		}
		all[r.Name] = r.Severity
	}
}
