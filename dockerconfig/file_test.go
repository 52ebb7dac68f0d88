// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerconfig

import (
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/plugin"
)

// testAuth is the credential that most tests use.
func testAuth() Auth { return Auth{Username: "u", Password: plugin.NewSecret(canary.PasswordSecret)} }

// authField returns the auth field for secret.
func authField() string { return `"auth":"` + encodeBase64("u:"+canary.PasswordSecret) + `"` }

func TestParseFile(t *testing.T) {
	one := &File{Auths: map[string]Auth{"r.io": testAuth()}}
	none := &File{Auths: map[string]Auth{}}
	tests := []struct {
		name, data string
		want       *File
		err        string
	}{
		{"auth", `{"auths":{"r.io":{` + authField() + `}}}`, one, ""},
		{"plain", `{"auths":{"r.io":{"username":"u","password":"` + canary.PasswordSecret + `"}}}`, one, ""},
		{"auth wins", `{"auths":{"r.io":{"username":"x","password":"y",` + authField() + `}}}`, one, ""},
		{"unpadded", `{"auths":{"r.io":{"auth":"` + base64.RawStdEncoding.EncodeToString([]byte("u:"+canary.PasswordSecret)) + `"}}}`, one, ""},
		{"filled with zeros", `{"auths":{"r.io":{"auth":"` + encodeBase64("u:"+canary.PasswordSecret+"\x00\x00") + `"}}}`, one, ""},
		{"any case, unknown fields", `{"AUTHS":{"r.io":{"email":1,` + authField() + `}},"HttpHeaders":{"X":1},"psFormat":"x"}`, one, ""},
		{"legacy", `{"r.io":{` + authField() + `,"email":"x"}}`, one, ""},
		{"no credentials in it", `{"HttpHeaders":{"X":"y"},"psFormat":"x"}`, none, ""},
		{"auths is null", `{"auths":null}`, none, ""},
		{"nothing in it", `{}`, none, ""},
		{"null", `null`, none, ""},
		{"empty entries", `{"auths":{"r.io":{},"s.io":null,"t.io":{"email":"x"}}}`, none, ""},
		{"tokens", `{"auths":{"r.io":{"auth":"` + encodeBase64("u:") + `","identitytoken":"` + canary.TokenSecret + `"},"s.io":{"registrytoken":"` + canary.TokenSecret + `"}}}`,
			&File{Auths: map[string]Auth{"r.io": {Username: "u", IdentityToken: plugin.NewSecret(canary.TokenSecret)}, "s.io": {RegistryToken: plugin.NewSecret(canary.TokenSecret)}}}, ""},
		{"helpers", `{"credsStore":"pass","credHelpers":{"r.io":"ecr-login"}}`,
			&File{Auths: map[string]Auth{}, CredsStore: "pass", CredHelpers: map[string]string{"r.io": "ecr-login"}}, ""},

		{"empty", ``, nil, `line 1, column 1: not JSON: it is empty: use {"auths":{}} for a file without credentials`},
		{"not JSON", `auths: ` + canary.PasswordSecret, nil, "line 1, column 1: not JSON: it is YAML: convert it to JSON"},
		{"two values", `{} {}`, nil, "line 1, column 4: not JSON: unexpected text after the last bracket: remove the text"},
		{"a list", `[]`, nil, "line 1, column 1: an array where an object is expected"},
		{"auths is text", `{"auths":"` + canary.PasswordSecret + `"}`, nil, "line 1, column 10: auths: a string where an object is expected"},
		{"helper is a number", `{"credHelpers":{"r.io":1}}`, nil, `line 1, column 24: credHelpers["r.io"]: a number where a string is expected`},
		{"bad base64", `{"auths":{"a.io":{},"r.io":{"auth":"` + canary.PasswordSecret + `"}}}`, nil, `line 1, column 36: auths["r.io"].auth: it is not base64: use the output of printf %s user:password | base64 -w0`},
		{"no colon", `{"auths":{"https://r.io/v1/":{"auth":"` + encodeBase64(canary.PasswordSecret) + `"}}}`, nil, `line 1, column 38: auths["https://r.io/v1/"].auth: the decoded text has no colon between user and password: use the output of printf %s user:password | base64 -w0`},
		{"entry is text", `{"auths":{"r.io":"` + canary.PasswordSecret + `"}}`, nil, `line 1, column 18: auths["r.io"]: a string where an object is expected`},
		{"password for a key", `{"auths":{"` + canary.PasswordSecret + `":{"auth":"r.io"}}}`, nil, "line 1, column 42: auths[a hidden key].auth: it is not base64: use the output of printf %s user:password | base64 -w0"},
		{"bad legacy", `{"r.io":{"auth":"` + canary.PasswordSecret + `"}}`, nil, `line 1, column 17: ["r.io"].auth: it is not base64: use the output of printf %s user:password | base64 -w0`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseFile([]byte(tt.data))
			if (err != nil || tt.err != "") && fmt.Sprint(err) != tt.err {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			if !cmp.Equal(got, tt.want) {
				t.Error("another file than wanted") // not printed: it holds secrets
			}
			canary.AssertAbsent(t, "error", fmt.Sprint(err))
		})
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add([]byte(`{"auths":{"r.io":{`+authField()+`}},"credHelpers":{"s.io":"pass"},"credsStore":"x"}`), "r.io/team/app")
	f.Add([]byte(`{"auths":{"https://*.io/v1/":{`+authField()+`},"r.io/team":{`+authField()+`}}}`), "r.io/team/app")
	f.Add([]byte(`{"r.io":{"auth":"`+canary.PasswordSecret+`"}}`), "r.io")
	f.Add([]byte(`{"auths":{"`+canary.PasswordSecret+`":{"auth":"x"}}}`), "r.io")
	f.Fuzz(func(t *testing.T, data []byte, image string) {
		file, err := ParseFile(data)
		canary.AssertAbsent(t, "error", fmt.Sprint(err))
		if err != nil {
			return
		}
		file.Helper(image)
		file.HasPaths(image)
		seen := map[string]bool{}
		for _, m := range file.Find(image) {
			if !m.Auth.Equal(file.Auths[m.Key]) || m.Auth.IsZero() || seen[m.Key] {
				t.Errorf("key %q: found twice, or with another credential than the file has", m.Key)
			}
			seen[m.Key] = true
		}
	})
}
