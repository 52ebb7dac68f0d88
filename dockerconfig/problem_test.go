// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerconfig

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/dockerjson"
)

// TestProblems verifies the explanations for mistakes that users have made.
func TestProblems(t *testing.T) {
	secret := "u:" + canary.PasswordSecret
	auth := func(s string) string {
		return "{\n  \"auths\": {\n    \"r.example\": {\"auth\": \"" + s + "\"}\n  }\n}"
	}
	const at = `line 3, column 27: auths["r.example"].auth: `
	for name, tt := range map[string]struct {
		data string
		want []string // beginnings of the problems
	}{
		"none":          {auth(encodeBase64(secret)), nil},
		"line-wrapped":  {auth(encodeBase64(secret)[:8] + `\r\n` + encodeBase64(secret)[8:]), nil},
		"twice":         {auth(encodeBase64(encodeBase64(secret))), []string{at + "the value is base64-encoded twice"}},
		"twice, line":   {auth(encodeBase64(encodeBase64(secret) + "\n")), []string{at + "the value is base64-encoded twice"}},
		"url-safe":      {auth(base64.URLEncoding.EncodeToString([]byte(secret + "\xfb\xff\xfe"))), []string{at + "URL-safe base64"}},
		"padding":       {auth(strings.TrimRight(encodeBase64(secret+"1"), "=") + "==="), []string{at + "the base64 text has incorrect padding (= characters at the end)"}},
		"plain":         {auth(secret), []string{at + "user:password must be base64-encoded"}},
		"token":         {auth(encodeBase64(canary.TokenSecret)), []string{at + "the decoded text has no colon"}},
		"header":        {auth("Basic " + encodeBase64(secret)), []string{at + "the value is an HTTP Authorization header"}},
		"placeholder":   {auth("${DOCKER_AUTH}"), []string{at + "the value looks like a placeholder that was not filled in"}},
		"plain NGC key": {auth("$oauthtoken:" + secret), []string{at + "user:password must be base64-encoded"}},
		"blank":         {auth(encodeBase64(secret+"1") + "\\t"), []string{at + "the base64 text has leading or trailing spaces"}},
		"two of them":   {`{"auths":{"a.example":{"auth":"x"},"b.example":{"username":1,"password":[]}}}`, []string{`line 1, column 31: auths["a.example"].auth: it is not base64`, `line 1, column 60: auths["b.example"].username: a number where a string`, `line 1, column 73: auths["b.example"].password: an array where a string`}},
		"replaced":      {`{"auths":{"a.example":{"auth":"x"},"a.example":{}}}`, []string{`line 1, column 31: auths["a.example"].auth: it is not base64`}},
		"last auth":     {`{"auths":{"a.example":{"auth":"x","AUTH":"` + encodeBase64(secret) + `"}}}`, nil},
		"BOM":           {"\xef\xbb\xbf{}", []string{"line 1, column 1: not JSON: begins with a byte order mark"}},
		"UTF-16":        {"\xff\xfe{\x00}\x00", []string{"line 1, column 1: not JSON: it is UTF-16"}},
		"CRLF":          {"{\r\n\"auths\":{}\r\n}\r\n", nil},
		"comment":       {"{\n  // logins\n}", []string{"line 2, column 3: not JSON: comments are not allowed in JSON"}},
		"comma":         {"{\"auths\":{},\n}", []string{"line 2, column 1: not JSON: trailing comma before the closing bracket: remove the comma"}},
		"missing comma": {"{\"auths\":{}\n\"x\":1}", []string{"line 2, column 1: not JSON: missing comma or colon before this position"}},
		"single quotes": {"{'auths':{}}", []string{"line 1, column 2: not JSON: single-quoted string"}},
		"cut off":       {"{\"auths\":{\n", []string{"line 2, column 1: not JSON: ends before all brackets are closed: check whether the file is truncated"}},
		"NUL":           {"{}\x00", []string{"line 1, column 3: not JSON: a NUL"}},
		"two":           {"{}\n{}", []string{"line 2, column 1: not JSON: unexpected text after the last bracket"}},
		"wrapped text":  {auth(encodeBase64(secret)[:8] + "\n" + encodeBase64(secret)[8:]), []string{"line 3, column 36: not JSON: a line break or tab inside a string"}},
		"YAML":          {"auths:\n  r.example:\n    auth: " + encodeBase64(secret), []string{"line 1, column 1: not JSON: it is YAML"}},
		"HTML":          {"<html>" + canary.PasswordSecret, []string{"line 1, column 1: not JSON: looks like HTML"}},
		"base64":        {encodeBase64(auth(encodeBase64(secret))) + "\n", []string{"line 1, column 1: not JSON: has an extra layer of base64 encoding"}},
		"blanks alone":  {" \n", []string{"line 2, column 1: not JSON: it is empty"}},
		"deep":          {strings.Repeat("[", 10001), []string{"line 1, column 10001: not JSON: nested too deeply"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := findProblems(ConfigJSON, []byte(tt.data))
			if len(got) != len(tt.want) {
				t.Fatalf("got %v, want %q", got, tt.want)
			}
			for i, p := range got {
				if !strings.HasPrefix(p.Error(), tt.want[i]) {
					t.Errorf("got %q, want %q", p, tt.want[i])
				}
				canary.AssertAbsent(t, "the error", p.Error())
			}
		})
	}
}

// FuzzProblems verifies that FindProblems finds a problem if and only if the decoder rejects the
// file.
func FuzzProblems(f *testing.F) {
	for _, seed := range []string{
		`{"auths":{"r.io":{"auth":"` + encodeBase64("u:"+canary.PasswordSecret) + `"}}}`, `{"r.io":{"auth":"` + canary.PasswordSecret + `"}}`,
		`{"auths":{"a":{"auth":"x"},"a":{}},"HttpHeaders":{"a":1}}`, `{"auth\u017f":{"a":[]},"auths":null}`, "\ufeff{}", `{"a":{"auth":"x","Auth":null,"email":1}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := Parse(data, ConfigJSON)
		_, legacy := Parse(data, DockerCfg)
		_, docker := ParseFile(data)
		for name, tt := range map[string]struct {
			err  error
			list []*dockerjson.Problem
		}{"config.json": {err, findProblems(ConfigJSON, data)}, ".dockercfg": {legacy, findProblems(DockerCfg, data)}} {
			if (tt.err == nil) != (len(tt.list) == 0) {
				t.Fatalf("%s: error %v, problems %v", name, tt.err, tt.list)
			}
			for _, p := range tt.list {
				canary.AssertAbsent(t, name, p.Error())
				if p.Line < 1 || p.Column < 1 {
					t.Errorf("%s: a problem without a place: %v", name, p)
				}
			}
		}
		if p, ok := docker.(*dockerjson.Problem); ok && p.Line < 1 {
			t.Errorf("docker: a problem without a place: %v", p)
		}
	})
}

// findProblems returns the reasons why Parse rejects data.
func findProblems(format Format, data []byte) []*dockerjson.Problem {
	layout := map[Format]dockerjson.FileLayout{ConfigJSON: dockerjson.LayoutKubelet, DockerCfg: dockerjson.LayoutKubeletLegacy}[format]
	if _, err := Parse(data, format); err != nil {
		return dockerjson.FindProblems(data, err, layout)
	}
	return nil
}
