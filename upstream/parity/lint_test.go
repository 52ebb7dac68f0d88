// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package parity

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider/secrets"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/lint/pullsecret"
	"github.com/regcred/regcred/upstream/generate"
)

// dockerFragments are valid and invalid fragments of a docker config.
var dockerFragments = append([]string{
	`"identitytoken":"x",`, `"auths":{},`, `"credsStore":"x",`, `"Auths":{"a.io":{"username":"v"}},`, `"a.io":{},`, `"auth":"dTpw",`, "\u017f", "\t", "{}", `\ud800`,
}, generate.SecretFragments...)

// randomDockerFile generates a docker config, member by member, and sometimes changes a few bytes.
func randomDockerFile(r *rand.Rand, legacy bool) string {
	var entries []string
	for range r.IntN(5) {
		entries = append(entries, fmt.Sprintf("%q:%s", generate.RandomAuthKey(r, generate.PickElement(r, generate.Repositories)), randomDockerEntry(r)))
	}
	text := "{" + strings.Join(entries, ",") + "}"
	if !legacy {
		members := []string{fmt.Sprintf("%q:%s", generate.PickMostlyFrom(r, 10, []string{"auths"}, []string{"Auths", "AUTHS", "auth", "aut\u0068s", "auth\u017f"}), text)}
		for range r.IntN(3) {
			members = append(members, generate.PickMostlyFrom(r, 10, []string{`"credsStore":"x"`, `"HttpHeaders":{"a":"b"}`, `"credHelpers":{"a.io":"x"}`, `"other":[1]`}, []string{`"HttpHeaders":{"a":1}`, `"HttpHeaders":[]`, `"httpheaders":{"a":null}`, `"auths":null`, `"auths":{"a.io":{"username":"w"}}`, `"auths":1`}))
		}
		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		text = "{" + strings.Join(members, ",") + "}"
	}
	if generate.OneIn(r, 4) {
		text = generate.MutateBytes(r, text, dockerFragments)
	}
	return text
}

// randomDockerEntry generates an entry of a docker config.
func randomDockerEntry(r *rand.Rand) string {
	auth := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	const rare = 12
	var fields []string
	for range r.IntN(4) {
		name := generate.PickMostlyFrom(r, rare, []string{"auth", "username", "password", "email"}, []string{"AUTH", "Username", "paſſword", "identitytoken", "x"})
		var value any
		switch strings.ToLower(name) {
		case "auth":
			value = generate.PickMostlyFrom(r, 6, []any{auth("u:" + password), strings.TrimRight(auth("u:"+password), "="), ""},
				[]any{auth("u"), auth(":p"), auth("u:"), "!", auth("u:p") + "\n", " " + auth("u:p"), auth("u:p") + " ", base64.URLEncoding.EncodeToString([]byte("u\xff\xff:p")), "=", auth("u:pp") + "=", nil, 1})
		default:
			value = generate.PickMostlyFrom(r, rare, []any{"u", "", password}, []any{1, nil, []int{}, map[string]int{}, true})
		}
		data, _ := json.Marshal(value)
		fields = append(fields, fmt.Sprintf("%q:%s", name, data))
	}
	return generate.PickMostlyFrom(r, 20, []string{"{" + strings.Join(fields, ",") + "}"}, []string{"null", "1", "[]", `"x"`})
}

// TestLintDockerConfig verifies that the linter and the kubelet agree about a docker config:
// whether it is rejected, how many credentials it has, and which keys match no image.
func TestLintDockerConfig(t *testing.T) {
	var refused, logins, none int
	runCases(t, 100_000, func(r *rand.Rand) bool {
		legacy := generate.OneIn(r, 3)
		text := randomDockerFile(r, legacy)
		var file credentialprovider.DockerConfigJSON
		got, err := pullsecret.CheckAs(pullsecret.DockerConfig, "f", []byte(text), time.Now()), error(nil)
		if legacy {
			got = pullsecret.CheckAs(pullsecret.Dockercfg, "f", []byte(text), time.Now())
			err = json.Unmarshal([]byte(text), &file.Auths)
		} else {
			err = json.Unmarshal([]byte(text), &file)
		}
		if got.Rejected != (err != nil) {
			t.Errorf("refused: %t, the kubelet's error: %v\n%q", got.Rejected, err, text)
			return false
		}
		errors := 0
		for _, f := range got.Findings {
			if f.Severity == finding.SeverityError {
				errors++
			}
			if strings.Contains(f.String()+f.Fix, password) {
				t.Errorf("a password is shown: %s\n%q", f.Rule, text)
				return false
			}
			if f.Line < 1 || f.Column < 1 {
				t.Errorf("no place: %v\n%q", f, text)
				return false
			}
		}
		if err != nil {
			refused++
			if errors == 0 {
				t.Errorf("refused without an error\n%q", text)
			}
			return errors > 0
		}
		want := 0
		for _, e := range file.Auths {
			if e.Username != "" {
				want++
			}
		}
		logins += want
		if got.Credentials != want {
			t.Errorf("%d logins, the kubelet's %d\n%q", got.Credentials, want, text)
			return false
		}
		for _, f := range got.Findings {
			if f.Rule == "docker-key-no-image" {
				none++
			}
		}
		return checkUnmatchedKeys(t, file.Auths)
	})
	t.Logf("%d refused, %d logins, %d keys that match no image", refused, logins, none)
	if refused < 1000 || logins < 1000 || none < 1000 {
		t.Error("the generator no longer makes all kinds")
	}
}

// checkUnmatchedKeys checks that the linter and the kubelet agree which keys match no image.
func checkUnmatchedKeys(t *testing.T, auths credentialprovider.DockerConfig) bool {
	for key := range auths {
		data, _ := json.Marshal(map[string]any{"auths": map[string]any{key: map[string]string{"username": "u", "password": "p"}}})
		said := false
		for _, f := range pullsecret.CheckAs(pullsecret.DockerConfig, "f", data, time.Now()).Findings {
			said = said || f.Rule == "docker-key-no-image"
		}
		ring := &credentialprovider.BasicDockerKeyring{}
		ring.Add(nil, credentialprovider.DockerConfig{key: {Username: "u", Password: "p"}})
		for _, repo := range generate.Repositories {
			if creds, found := ring.Lookup(repo); found && len(creds) > 0 && said {
				t.Errorf("%q is reported to match no image, but %q matches", key, repo)
				return false
			}
		}
	}
	return true
}

// TestLintSecret is like [TestLintDockerConfig], for pull secrets.
func TestLintSecret(t *testing.T) {
	var passed, broken, good int
	runCases(t, 50_000, func(r *rand.Rand) bool {
		legacy := generate.OneIn(r, 2)
		data := randomDockerFile(r, legacy)
		if generate.OneIn(r, 10) {
			data = base64.StdEncoding.EncodeToString([]byte(data))
		}
		kinds := []string{string(corev1.SecretTypeDockerConfigJson), string(corev1.SecretTypeDockercfg)}
		keys := []string{corev1.DockerConfigJsonKey, corev1.DockerConfigKey}
		of := 0
		if legacy {
			of = 1
		}
		kind := generate.PickMostlyFrom(r, 10, kinds[of:of+1], append(kinds, "Opaque", "", "kubernetes.io/dockerconfig"))
		key := generate.PickMostlyFrom(r, 10, keys[of:of+1], append(keys, "config.json", "x"))
		m := map[string][]byte{key: []byte(data)}
		if generate.OneIn(r, 40) {
			m[key] = nil
		}
		ring, err := secrets.MakeDockerKeyring([]corev1.Secret{{Type: corev1.SecretType(kind), Data: m}}, nil)
		got := pullsecret.CheckSecret(pullsecret.Secret{Name: "s", Type: kind, Data: m}, time.Now())
		taken := len(m[keys[0]]) > 0 && kind == kinds[0] || len(m[keys[1]]) > 0 && kind == kinds[1]
		says := func(rule string) bool {
			for _, f := range got.Findings {
				if f.Rule == rule {
					return true
				}
			}
			return false
		}
		switch {
		case got.Rejected != (err != nil):
			t.Errorf("refused: %t, the kubelet's error %v: %s %s %q", got.Rejected, err, kind, key, data)
			return false
		case err != nil:
			broken++
		case !taken:
			passed++
			if !says("secret-type") || got.Credentials > 0 {
				t.Errorf("passed over without a word (%d logins): %s %s %q", got.Credentials, kind, key, data)
				return false
			}
		default:
			good++
			if says("secret-type") {
				t.Errorf("a kubelet takes it: %s %s %q", kind, key, data)
				return false
			}
		}
		_ = ring
		return true
	})
	t.Logf("%d taken, %d broken, %d passed over", good, broken, passed)
	if good < 1000 || broken < 1000 || passed < 1000 {
		t.Error("the generator no longer makes all kinds")
	}
}
