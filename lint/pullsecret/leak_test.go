// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/dockerjson"
	"github.com/regcred/regcred/internal/must"
)

// leakFragments lists fragments of files with credentials; @ is replaced with a secret in one of its forms.
var leakFragments = []string{
	"{", "}", "[", "]", ",", ":", ": ", "\n", "\n  ", "\n    ", "- ", "---\n", "...\n", "# @\n", "&a ", "*a", "&@ ", "*@", "<<: *a\n", "|\n", ">-\n", "!!binary ", "!@ ", "\t", "\r", "\"", "'", "\x00", "\xff", "\ufeff", "%@\n",
	"@", "@", "@", `"@"`, `"@":`, "@: ", "@: @\n", `"auths":`, `"auth":"@"`, `"username":"@"`, `"password":"@"`, `"identitytoken":"@"`, `"credsStore":"@"`, `"credHelpers":{"@":"@"}`, `"HttpHeaders":{"@":"@"}`, `"HttpHeaders":{"@":1}`,
	`{"auths":{"r.example":{"auth":"@"}}}`, `{"auths":{"@":{"username":"u","password":"p"}}}`, `"r.example":{"@":"@"}`, `{"r.example":{"username":"@","password":"@"}}`, `{"@":{"auth":1}}`, `"https://@:@@r.example/":{}`, `"@:@":{}`,
	"kind: Secret\n", "kind: @\n", "type: @\n", "type: kubernetes.io/dockerconfigjson\n", "type: kubernetes.io/dockercfg\n", "metadata: {name: @, namespace: @, annotations: {@: @}}\n", "data:\n  .dockerconfigjson: @\n", "data:\n  .dockercfg: @\n", "data: {@: @}\n", "data: @\n",
	"stringData:\n  .dockerconfigjson: |\n    {\"auths\":{\"r.example\":{\"auth\":\"@\"}}}\n", "stringData: {@: @, .dockercfg: '@'}\n", "metadata:\n  annotations:\n    kubectl.kubernetes.io/last-applied-configuration: |\n      {\"data\":{\".dockerconfigjson\":\"@\"}}\n", "kind: List\nitems:\n- ", "apiVersion: v1\n",
}

// encodedSecret returns the canary secret in a random encoding.
func encodedSecret(r *rand.Rand) string {
	const s = canary.PasswordSecret
	forms := []string{s, s, strings.ToUpper(s), encodeBase64(s), encodeBase64("u:" + s), encodeBase64(`{"auths":{"r.example":{"username":"u","password":"` + s + `"}}}`), encodeBase64(`{"auths":{"` + s + `":{"auth":"` + encodeBase64("u:"+s) + `x"}}}`),
		encodeBase64(`{"` + s + `":{"auth":"` + s + `"}}`), encodeBase64(encodeBase64("u:" + s)), s + "\\n", "u:" + s, s + ":" + s, newToken(testNow), ecrToken(testNow), "Bearer " + s, "${" + s + "}", s + "/" + s, "*." + s, "$(" + s + ")"}
	return forms[r.IntN(len(forms))]
}

// leakConfig returns a docker config with secrets in unexpected fields.
func leakConfig(r *rand.Rand) string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	var entries []string
	for range 1 + r.IntN(3) {
		var fields []string
		for range r.IntN(4) {
			value, _ := json.Marshal(pick(encodedSecret(r), encodedSecret(r), "u", "", "AWS", "_json_key", "_json_key_base64", encodeBase64(encodedSecret(r)+":"+encodedSecret(r)), " "+canary.PasswordSecret+"\n"))
			name, _ := json.Marshal(pick("auth", "username", "password", "identitytoken", "registrytoken", "user", "pass", encodedSecret(r)))
			fields = append(fields, string(name)+":"+string(value))
		}
		key, _ := json.Marshal(pick("r.example", "https://r.example/v1/", "r.example:443", "docker.io", "hub.docker.com", "r.example/"+"*", encodedSecret(r), "u:"+encodedSecret(r)+"@r.example", "auths"))
		entries = append(entries, string(key)+":{"+strings.Join(fields, ",")+"}")
	}
	list := "{" + strings.Join(entries, ",") + "}"
	secret, _ := json.Marshal(encodedSecret(r))
	return pick(list, `{"auths":`+list+`}`, `{"auths":`+list+`,"credsStore":`+string(secret)+`}`, `{"auths":`+list+`,"credHelpers":{`+string(secret)+`:`+string(secret)+`,"e.example":`+string(secret)+`}}`,
		`{"auths":`+list+`,"HttpHeaders":{`+string(secret)+`:`+string(secret)+`}}`, `{"Auths":`+list+`,"auths":null}`, `{`+string(secret)+`:`+list+`}`, `{"auths":`+list+`,`+entries[0]+`,`+string(secret)+`:1}`)
}

// TestNoPanicOrSecret verifies that no file causes a panic or a message that contains a secret.
func TestNoPanicOrSecret(t *testing.T) {
	said := map[string]int{}
	for i := range uint64(12_000) {
		r := rand.New(rand.NewPCG(7, i))
		var b strings.Builder
		for range 1 + r.IntN(12) {
			b.WriteString(leakFragments[r.IntN(len(leakFragments))])
		}
		text := b.String()
		if r.IntN(2) > 0 {
			text = "kind: Secret\ntype: kubernetes.io/dockerconfigjson\n" + text
		}
		switch r.IntN(4) {
		case 0:
			text = leakConfig(r)
		case 1:
			text = "kind: Secret\ntype: kubernetes.io/dockerconfigjson\ndata:\n  .dockerconfigjson: " + encodeBase64(leakConfig(r)) + "\n"
		case 2:
			text = "kind: Secret\ntype: kubernetes.io/dockerconfigjson\nstringData:\n  .dockerconfigjson: |\n    " + leakConfig(r) + "\n"
		}
		for r.IntN(2) > 0 && strings.Contains(text, "@") {
			text = strings.Replace(text, "@", encodedSecret(r), 1)
		}
		data := []byte(text)
		secret := func(key, kind string) Secret {
			return Secret{Name: "s", Type: kind, Data: map[string][]byte{key: data, canary.PasswordSecret: data}}
		}
		for what, c := range map[string]*Result{
			"file": Check("f", data, testNow), "config": CheckAs(DockerConfig, "f", data, testNow), "dockercfg": CheckAs(Dockercfg, "f", data, testNow), "manifest": CheckAs(Manifest, "f", data, testNow),
			"secret": CheckSecret(secret(dockerjson.SecretKeyConfigJSON, dockerjson.SecretTypeConfigJSON), testNow), "other": CheckSecret(secret("x", canary.PasswordSecret), testNow),
		} {
			if c == nil {
				continue
			}
			out := must.Get(json.Marshal(c))(t)
			for _, f := range c.Findings {
				said[caseName(f)]++
				out = append(out, f.String()+f.Fix...)
			}
			if form := canary.FindMarker(strings.ToLower(string(out))); form != "" || canary.FindMarker(string(out)) != "" {
				i := slices.IndexFunc(c.Findings, func(f finding.Finding) bool { return strings.Contains(strings.ToLower(f.String()+f.Fix), form) })
				t.Fatalf("case %d, %s: %q is shown by %v\n%q", r.Uint64(), what, form, c.Findings[max(i, 0)], text)
			}
		}
	}
	if len(said) < 20 {
		t.Errorf("only %d rules spoke: %v", len(said), said)
	}
}
