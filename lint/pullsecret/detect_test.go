// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/regcred/regcred/internal/canary"
)

// TestCheck verifies that the format of a file is detected from its content and name.
func TestCheck(t *testing.T) {
	config := `{"auths":{"r.example":{"auth":"` + encodeBase64("u:"+canary.PasswordSecret) + `"}}}`
	manifest := "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ntype: kubernetes.io/dockerconfigjson\ndata: {.dockerconfigjson: " + encodeBase64(config) + "}\n"
	object := `{"apiVersion":"v1","kind":"Secret","type":"kubernetes.io/dockerconfigjson","data":{".dockerconfigjson":"` + encodeBase64(config) + `"}}`
	const providers = "kind: CredentialProviderConfig\nproviders:\n- name: auths\n"
	var wide strings.Builder
	for _, c := range utf16.Encode([]rune("\ufeff" + manifest)) {
		wide.Write([]byte{byte(c), byte(c >> 8)})
	}
	for _, tt := range []struct{ name, data, want string }{
		{"f", config, "docker config.json: 1 of 0"},
		{"f", "\ufeff" + config, "docker config.json: refused 1:1"},
		{"f", config + "\n" + config, "docker config.json: refused 2:1"},
		{"f", `{"r.example":{"username":"u"}}`, ".dockercfg: 1 of 0"},
		{"f", "auths:\n  r.example: {}\n", "docker config.json: refused 1:1"},
		{"f", "registry:\n  auths: {}\n", ""},
		{"f", "", ""},
		{"config.json", "", "docker config.json: refused 1:1"},
		{"config.json", providers, ""},
		{"config.json", `{"kind":"CredentialProviderConfig","providers":[{"name":"auths"}]}`, ""},
		{"f", "# auths: and kind: Secret\n" + providers, ""},
		{"f", "# kind: Secret\n" + providers, ""},
		{"f", "kind: ConfigMap\ndata:\n  s: |\n    kind: Secret\n", ""},
		{"f", manifest, "Secret manifest: 1 of 1"},
		{"f", strings.ReplaceAll(manifest, "\n", "\r\n"), "Secret manifest: 1 of 1"},
		{"f", "\ufeff" + manifest, "Secret manifest: 1 of 1"},
		{"f", wide.String(), "Secret manifest: refused 1:0"},
		{"f", manifest + "---\n" + providers, "Secret manifest: 1 of 1"},
		{"f", object, "Secret manifest: 1 of 1"},
		{"f", object + "\n" + object + "\n", "Secret manifest: 2 of 2"},
		{"f", object + object + "\n---\n" + object, "Secret manifest: 3 of 3"},
		{"f", object + "\n" + object[:60], "Secret manifest: refused 2:0"},
		{"f", `{"kind":"List","items":[` + object + "," + object + "]}", "Secret manifest: 2 of 2"},
		{"f", `{"kind":"SecretList","items":[` + strings.Replace(object, `"kind":"Secret",`, "", 1) + "]}", "Secret manifest: 1 of 1"},
		{"f", "{{- if .x }}\n" + manifest + "{{- end }}\n", "Secret manifest: refused 1:0"},
		{"f", strings.Replace(manifest, encodeBase64(config), `"{{ .x }}"`, 1), "Secret manifest: refused 5:27"},
		{"f", "kind: SealedSecret\nspec: {template: {type: kubernetes.io/dockerconfigjson}}", ""},
	} {
		got := ""
		if c := Check(tt.name, []byte(tt.data), testNow); c != nil {
			got = fmt.Sprintf("%s: %d of %d", c.Kind, c.Credentials, c.Secrets)
			if c.Rejected {
				got = fmt.Sprintf("%s: refused %d:%d", c.Kind, c.Findings[0].Line, c.Findings[0].Column)
			}
			terseFindings(t, c)
		}
		if got != tt.want {
			t.Errorf("%s, %.40q: got %q, want %q", tt.name, tt.data, got, tt.want)
		}
	}
}
