// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerconfig

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/plugin"
)

func encodeBase64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func TestParse(t *testing.T) {
	ok := map[string]plugin.AuthConfig{"r.io": {Username: "u", Password: plugin.NewSecret(canary.PasswordSecret)}}
	tests := []struct {
		name, data string
		want       map[string]plugin.AuthConfig
		err        string
	}{
		{"plain", `{"auths":{"r.io":{"username":"u","password":"` + canary.PasswordSecret + `"}}}`, ok, ""},
		{"auth wins", `{"auths":{"r.io":{"username":"x","password":"y","auth":"` + encodeBase64("u:"+canary.PasswordSecret) + `"}}}`, ok, ""},
		{"unpadded", `{"auths":{"r.io":{"auth":"` + base64.RawStdEncoding.EncodeToString([]byte("u:"+canary.PasswordSecret)) + `"}}}`, ok, ""},
		{"any case", `{"AUTHS":{"r.io":{"UserName":"u","Password":"` + canary.PasswordSecret + `"}}}`, ok, ""},
		{"unknown fields", `{"credsStore":"x","auths":{"r.io":{"username":"u","password":"` + canary.PasswordSecret + `","x":1}}}`, ok, ""},
		{"none", `{}`, map[string]plugin.AuthConfig{}, ""},
		{"null", `null`, map[string]plugin.AuthConfig{}, ""},
		{"null entry", `{"auths":{"r.io":null}}`, map[string]plugin.AuthConfig{"r.io": {}}, ""},
		{"colon in the password", `{"auths":{"r.io":{"auth":"` + encodeBase64("u:a:b") + `"}}}`, map[string]plugin.AuthConfig{"r.io": {Username: "u", Password: plugin.NewSecret("a:b")}}, ""},
		{"bad base64", `{"auths":{"r.io":{"auth":"` + canary.PasswordSecret + `"}}}`, nil, `line 1, column 26: auths["r.io"].auth: it is not base64: use the output of printf %s user:password | base64 -w0`},
		{"no colon", `{"auths":{"r.io":{"auth":"` + encodeBase64(canary.PasswordSecret) + `"}}}`, nil, `line 1, column 26: auths["r.io"].auth: the decoded text has no colon between user and password: use the output of printf %s user:password | base64 -w0`},
		{"trailing space", `{"auths":{"r.io":{"auth":"` + encodeBase64("u:pp") + ` "}}}`, nil, `line 1, column 26: auths["r.io"].auth: the base64 text has leading or trailing spaces: remove the spaces`},
		{"not JSON", `auths: ` + canary.PasswordSecret, nil, "line 1, column 1: not JSON: it is YAML: convert it to JSON"},
		{"wrong type", `{"auths":{"r.io":"` + canary.PasswordSecret + `"}}`, nil, `line 1, column 18: auths["r.io"]: a string where an object is expected`},
		{"headers", `{"HttpHeaders":{"x":1},"auths":{}}`, nil, "line 1, column 21: HttpHeaders: a number where a string is expected"},
		{"empty", ``, nil, `line 1, column 1: not JSON: it is empty: use {"auths":{}} for a file without credentials`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse([]byte(tt.data), ConfigJSON)
			if fmt.Sprint(err) != tt.err && !(err == nil && tt.err == "") {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			if !cmp.Equal(got, tt.want) {
				t.Error("other credentials than wanted") // not printed: they are secrets
			}
			canary.AssertAbsent(t, "error", fmt.Sprint(err))
		})
	}
}

func TestParseLegacy(t *testing.T) {
	got, err := Parse([]byte(`{"r.io":{"auth":"`+encodeBase64("u:"+canary.PasswordSecret)+`"}}`), DockerCfg)
	if want := (map[string]plugin.AuthConfig{"r.io": {Username: "u", Password: plugin.NewSecret(canary.PasswordSecret)}}); err != nil || !cmp.Equal(got, want) {
		t.Errorf("error %v, or other credentials than wanted", err)
	}
	if _, err := Parse([]byte(`[]`), DockerCfg); err == nil {
		t.Error("a list is accepted")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"auths":{"r.io":{"auth":"` + encodeBase64("u:"+canary.PasswordSecret) + `"}}}`))
	f.Add([]byte(`{"r.io":{"auth":"` + canary.PasswordSecret + `"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err1 := Parse(data, ConfigJSON)
		_, err2 := Parse(data, DockerCfg)
		canary.AssertAbsent(t, "error", fmt.Sprint(err1, err2))
	})
}

// TestManyEntries verifies the limit on the number of entries. Without it, a file of a few
// megabytes would need hundreds of megabytes of memory.
func TestManyEntries(t *testing.T) {
	for name, parse := range map[string]func([]byte) error{
		"Parse":       func(b []byte) error { _, err := Parse(b, ConfigJSON); return err },
		"ParseLegacy": func(b []byte) error { _, err := Parse(b, DockerCfg); return err },
		"ParseFile":   func(b []byte) error { _, err := ParseFile(b); return err },
	} {
		few := strings.Repeat(`"a.example":{},`, maxSeparators/2-2)
		if name == "ParseLegacy" {
			few = "{" + few + `"b":{}}`
		} else {
			few = `{"auths":{` + few[:len(few)-1] + "}}"
		}
		if err := parse([]byte(few)); err != nil {
			t.Errorf("%s: refused: %v", name, err)
		}
		many := strings.Replace(few, "{}", `{"x":{},"y":{},"z":{}}`, 1)
		if err := parse([]byte(many)); err == nil || err.Error() != "the file contains more than 131072 commas and braces: check that it is a docker config file" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
