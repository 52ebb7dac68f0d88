// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/canary"
)

// TestMisplaced verifies the errors for other kinds of files and for fields of other files or
// levels. One error must report them by name.
func TestMisplaced(t *testing.T) {
	top := func(line string) string { return testConfig + line + "\n" }
	provider := func(line string) string { return testConfig + "  " + line + "\n" }
	tokens := func(line string) string { return testConfig + "  tokenAttributes:\n    " + line + "\n" }
	for name, tt := range map[string]struct{ content, want string }{
		"docker config":           {`{"auths":{"r.example":{"auth":"` + canary.PasswordSecret + `"}}}`, "f: this is a docker config.json, but the kubelet needs a file"},
		"kubeconfig":              {"clusters: []\nusers: []\n", "f: this is a kubeconfig"},
		"Secret without kind":     {"data: {x: " + canary.PasswordSecret + "}\n", "f: this is a Secret or ConfigMap"},
		"kubelet's without kind":  {"cgroupDriver: systemd\n", "f: this is the kubelet's main configuration"},
		"TOML":                    {"version = 2\n[plugins]\npassword = \"" + canary.PasswordSecret + "\"\n", "f: this looks like TOML"},
		"Secret":                  {"apiVersion: v1\nkind: Secret\n", "f:2:7: kind: a Secret for imagePullSecrets"},
		"ConfigMap":               {"apiVersion: v1\nkind: ConfigMap\n", "a ConfigMap: copy the configuration from its data field"},
		"ExecCredential":          {"apiVersion: client.authentication.k8s.io/v1\nkind: ExecCredential\n", "a response from a kubectl credential plugin"},
		"kubeadm":                 {"apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\n", "a kubeadm configuration: use the file that is set as image-credential-provider-config"},
		"answer":                  {"kind: CredentialProviderResponse\n", "a request or response exchanged by the kubelet and a plugin"},
		"kind in other letters":   {strings.Replace(testConfig, "CredentialProviderConfig", "credentialproviderconfig", 1), "did you mean CredentialProviderConfig? (case matters)"},
		"kind misspelled":         {strings.Replace(testConfig, "CredentialProviderConfig", "CredentialProvidersConfig", 1), "kind: did you mean CredentialProviderConfig?"},
		"template before all":     {"{{- if .Values.on }}\n" + testHeader + "{{- end }}\n", "f:1:1: neither YAML nor JSON: an unrendered template ({{ … }})"},
		"template in JSON":        {`{"kind": {{ .Kind }}}`, "f:1:10: neither YAML nor JSON: an unrendered template ({{ … }})"},
		"braces in a text":        {`{"kind": "{{ .Kind }}",}`, "f:1:24: not valid JSON from here on"},
		"braces, and a tab":       {"# for {{ .Name }}\n" + testHeader + "providers:\n- name: '{{ x }}'\n\tmatchImages: []\n", "f:6:1: not valid YAML: the line is indented with a tab"},
		"an empty document":       {"---\n# nothing\n---\n" + testHeader + "providers: []\n", "f:3: the first YAML document is empty, and the kubelet reads only the first one"},
		"template":                {testHeader + "providers:\n{{- range .Values.providers }}\n- name: {{ .name }}\n{{- end }}\n", "f:4:1: not valid YAML: an unrendered template ({{ … }})"},
		"field of a provider":     {top("defaultCacheDuration: 1h"), "f:8:1: defaultCacheDuration: unknown field: this field belongs in a providers entry"},
		"flag":                    {top("imageCredentialProviderBinDir: /x"), "unknown field; the known fields are apiVersion, kind and providers"},
		"KubeletConfiguration":    {top("featureGates: {}"), "unknown field; the known fields are apiVersion, kind and providers"},
		"object":                  {top("spec: {}"), "unknown field; the known fields are apiVersion, kind and providers"},
		"docker's":                {top("credHelpers: {}"), "unknown field: this field belongs in docker's config.json"},
		"field of tokens":         {provider("cacheType: Token"), "f:8:3: providers[0].cacheType: unknown field: this field belongs in tokenAttributes"},
		"field of the file":       {provider("kind: x"), "unknown field: this field belongs at the top level of the file"},
		"kubeconfig's exec":       {provider("command: x"), "unknown field; the known fields are apiVersion, args, defaultCacheDuration, env, matchImages, name and tokenAttributes"},
		"answer's":                {provider("cacheDuration: x"), "unknown field: this field belongs in the plugin's response; use defaultCacheDuration"},
		"credentials":             {provider("password: " + canary.PasswordSecret), "unknown field; the known fields are apiVersion, args, defaultCacheDuration, env, matchImages, name and tokenAttributes"},
		"containerd's":            {provider("endpoint: []"), "unknown field; the known fields are apiVersion, args, defaultCacheDuration, env, matchImages, name and tokenAttributes"},
		"another name":            {provider("arguments: []"), "unknown field; the known fields are apiVersion, args, defaultCacheDuration, env, matchImages, name and tokenAttributes"},
		"field of a level higher": {tokens("args: []"), "tokenAttributes.args: unknown field: this field belongs in the provider, one level up"},
		"audience":                {tokens("audience: x"), "unknown field: did you mean serviceAccountTokenAudience?"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("f", []byte(tt.content))
			if err == nil {
				t.Fatal("it is taken for a configuration")
			}
			if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got  %v\nwant …%s… alone", err, tt.want)
			}
			canary.AssertAbsent(t, "error", err.Error())
		})
	}
}

// TestDecodeAndValidationErrors verifies that decoding errors and validation errors are
// reported together.
func TestDecodeAndValidationErrors(t *testing.T) {
	_, err := Parse("f", []byte(`providers:
- name: a/b
  matchImages: ["r.example:port"]
  defaultCacheDuration: 5
  apiversion: credentialprovider.kubelet.k8s.io/v1
  env: {A: `+canary.EnvSecret+`}
- {}
`))
	if err == nil {
		t.Fatal("accepted")
	}
	canary.AssertAbsent(t, "error", err.Error())
	lines := strings.Split(err.Error(), "\n")
	var got []string
	for _, line := range lines {
		fields := strings.SplitN(line, ": ", 4)
		got = append(got, fields[1]+": "+strings.SplitN(fields[2], " ", 2)[0])
	}
	want := strings.Join([]string{"apiVersion: missing", "kind: missing", "providers[0].name: must", "providers[0].matchImages[0]: invalid", "providers[0].defaultCacheDuration: is",
		"providers[0].apiversion: unknown", "providers[0].env: is", "providers[1].name: missing", "providers[1].apiVersion: missing", "providers[1].matchImages: missing", "providers[1].defaultCacheDuration: required"}, "\n")
	if strings.Join(slices.Sorted(slices.Values(got)), "\n") != strings.Join(slices.Sorted(strings.SplitSeq(want, "\n")), "\n") {
		t.Errorf("got\n%s\nwant\n%s\nof\n%v", strings.Join(got, "\n"), want, err)
	}
}

// TestCorrectFieldWins verifies that a misspelled field is not validated if the correct field
// is present, and that the order of the errors is always the same.
func TestCorrectFieldWins(t *testing.T) {
	doc := testHeader + "providers:\n- name: a/b\n  Name: good\n  matchImages: [registry.example]\n  images: ['[']\n  patterns: ['[']\n" +
		"  defaultCacheDuration: 1h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n"
	for range 20 {
		_, err := Parse("c.yaml", []byte(doc))
		if err == nil || strings.Count(err.Error(), "\n") != 3 || !strings.Contains(err.Error(), `"a/b"`) || strings.Contains(err.Error(), `"["`) {
			t.Fatalf("got\n%v", err)
		}
	}
}
