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

// secret is the credential that most tests plant.
func secret() Auth { return Auth{Username: "u", Password: plugin.NewSecret(canary.Password)} }

// authField returns the auth field for secret.
func authField() string { return `"auth":"` + b64("u:"+canary.Password) + `"` }

func TestParseFile(t *testing.T) {
	one := &File{Auths: map[string]Auth{"r.io": secret()}}
	none := &File{Auths: map[string]Auth{}}
	tests := []struct {
		name, data string
		want       *File
		err        string
	}{
		{"auth", `{"auths":{"r.io":{` + authField() + `}}}`, one, ""},
		{"plain", `{"auths":{"r.io":{"username":"u","password":"` + canary.Password + `"}}}`, one, ""},
		{"auth wins", `{"auths":{"r.io":{"username":"x","password":"y",` + authField() + `}}}`, one, ""},
		{"unpadded", `{"auths":{"r.io":{"auth":"` + base64.RawStdEncoding.EncodeToString([]byte("u:"+canary.Password)) + `"}}}`, one, ""},
		{"filled with zeros", `{"auths":{"r.io":{"auth":"` + b64("u:"+canary.Password+"\x00\x00") + `"}}}`, one, ""},
		{"any case, unknown fields", `{"AUTHS":{"r.io":{"email":1,` + authField() + `}},"HttpHeaders":{"X":1},"psFormat":"x"}`, one, ""},
		{"legacy", `{"r.io":{` + authField() + `,"email":"x"}}`, one, ""},
		{"no credentials in it", `{"HttpHeaders":{"X":"y"},"psFormat":"x"}`, none, ""},
		{"auths is null", `{"auths":null}`, none, ""},
		{"nothing in it", `{}`, none, ""},
		{"null", `null`, none, ""},
		{"empty entries", `{"auths":{"r.io":{},"s.io":null,"t.io":{"email":"x"}}}`, none, ""},
		{"tokens", `{"auths":{"r.io":{"auth":"` + b64("u:") + `","identitytoken":"` + canary.Token + `"},"s.io":{"registrytoken":"` + canary.Token + `"}}}`,
			&File{Auths: map[string]Auth{"r.io": {Username: "u", IdentityToken: plugin.NewSecret(canary.Token)}, "s.io": {RegistryToken: plugin.NewSecret(canary.Token)}}}, ""},
		{"helpers", `{"credsStore":"pass","credHelpers":{"r.io":"ecr-login"}}`,
			&File{Auths: map[string]Auth{}, CredsStore: "pass", CredHelpers: map[string]string{"r.io": "ecr-login"}}, ""},

		{"empty", ``, nil, "not JSON: syntax error at byte 0"},
		{"not JSON", `auths: ` + canary.Password, nil, "not JSON: syntax error at byte 1"},
		{"two values", `{} {}`, nil, "not JSON: syntax error at byte 4"},
		{"a list", `[]`, nil, "a value of the wrong type before byte 1: struct wanted"},
		{"auths is text", `{"auths":"` + canary.Password + `"}`, nil, "a value of the wrong type before byte 31: map wanted"},
		{"helper is a number", `{"credHelpers":{"r.io":1}}`, nil, "a value of the wrong type before byte 24: string wanted"},
		{"bad base64", `{"auths":{"a.io":{},"r.io":{"auth":"` + canary.Password + `"}}}`, nil, `auths["r.io"]: an auth field is not the base64 of user:password`},
		{"no colon", `{"auths":{"https://r.io/v1/":{"auth":"` + b64(canary.Password) + `"}}}`, nil, `auths["https://r.io/v1/"]: an auth field is not the base64 of user:password`},
		{"entry is text", `{"auths":{"r.io":"` + canary.Password + `"}}`, nil, `auths["r.io"]: a value of the wrong type before byte 22: struct wanted`},
		{"password for a key", `{"auths":{"` + canary.Password + `":{"auth":"r.io"}}}`, nil, "auths[a key that is not shown]: an auth field is not the base64 of user:password"},
		{"bad legacy", `{"r.io":{"auth":"` + canary.Password + `"}}`, nil, `["r.io"]: an auth field is not the base64 of user:password`},
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
			canary.Check(t, "error", fmt.Sprint(err))
		})
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add([]byte(`{"auths":{"r.io":{`+authField()+`}},"credHelpers":{"s.io":"pass"},"credsStore":"x"}`), "r.io/team/app")
	f.Add([]byte(`{"auths":{"https://*.io/v1/":{`+authField()+`},"r.io/team":{`+authField()+`}}}`), "r.io/team/app")
	f.Add([]byte(`{"r.io":{"auth":"`+canary.Password+`"}}`), "r.io")
	f.Add([]byte(`{"auths":{"`+canary.Password+`":{"auth":"x"}}}`), "r.io")
	f.Fuzz(func(t *testing.T, data []byte, image string) {
		file, err := ParseFile(data)
		canary.Check(t, "error", fmt.Sprint(err))
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
