// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package manifest

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/pullsecret"
)

const fileText = `apiVersion: regcred.dev/v1alpha1
kind: PullSecretConfig
namespaces: {matchLabels: {regcred.dev/pull-secrets: enabled, team: b}}
rules: [{registries: [r.example]}]
`

const providersText = `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: token
  matchImages: [r.example]
  defaultCacheDuration: 1h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  tokenAttributes: {serviceAccountTokenAudience: "it's \"x\" \\ ü", cacheType: Token, requireServiceAccount: true}
`

// TestRender verifies that the output is valid YAML without a Secret right that has no name, and that
// rights exist only if they are needed. upstream/pullsecret tests the objects with an API server.
func TestRender(t *testing.T) {
	for accounts, want := range map[string]string{
		"": "ClusterRole ClusterRoleBinding Role RoleBinding ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding MutatingAdmissionPolicy MutatingAdmissionPolicyBinding",
		"serviceAccounts: [app]\n": "ClusterRole ClusterRoleBinding Role RoleBinding ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding " +
			"ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding MutatingAdmissionPolicy MutatingAdmissionPolicyBinding",
	} {
		f := must.Get(pullsecret.Parse("f", []byte(fileText+accounts)))(t)
		out := must.Get(Render(f, must.Get(config.Parse("c", []byte(providersText)))(t), Options{Namespace: "n", ServiceAccount: "s", Inject: true}))(t)
		var kinds []string
		d := yaml.NewDecoder(bytes.NewReader(out))
		for {
			var o struct {
				Kind  string
				Rules []struct {
					Resources     []string
					ResourceNames []string `yaml:"resourceNames"`
					Verbs         []string
				}
			}
			err := d.Decode(&o)
			if errors.Is(err, io.EOF) {
				break
			}
			must.Do(t, err)
			kinds = append(kinds, o.Kind)
			for _, r := range o.Rules {
				if strings.HasPrefix(strings.Join(r.Resources, ""), "se") && len(r.ResourceNames) == 0 {
					t.Errorf("%v may %v every object", r.Resources, r.Verbs)
				}
			}
		}
		if got := strings.Join(kinds, " "); got != want {
			t.Errorf("%q:\ngot  %s\nwant %s", accounts, got, want)
		}
	}
}

func TestCELString(t *testing.T) {
	for in, want := range map[string]string{"a": "'a'", `it's "x"`: `'it\'s "x"'`, `\`: `'\\'`, "ü\n": `'\u00fc\n'`} {
		if got := celString(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
