// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerjson

import (
	"strings"
	"testing"
)

func TestDisplayKey(t *testing.T) {
	for _, key := range []string{
		"r.example", "r.example:5000", "https://r.example/v2/", "HTTPS://R.Example", "*.dkr.ecr.*.amazonaws.com", "registry.*", "*", "10.0.0.1", "10.0.0.1:5000/team",
		"localhost", "localhost:5000", "registry:5000", "xn--e1afmkfd.xn--p1ai", "https://index.docker.io/v1/", "r.example/App", "oci://r.example", "registry.ns.svc.cluster.local:443", "r.example.",
	} {
		if got := DisplayKey(key); got != `"`+key+`"` && key != "r.example." {
			t.Errorf("%q: %s", key, got)
		}
	}
	for _, key := range []string{
		"", "secret", "Secret", "pass.w0rd1", "ci:hunter2", "ci:hunter.two", "user:1234567", "https://ci:secret@r.example", "user@r.example", "c3Rhci5zdGFy", "c3Rh=",
		"ghp_Abcdef.xyz", "glpat-abcdef.example", "eyJhbGciOi.eyJ.abc", "pass word.example", "s3cret://r.example", "a_b.example", "1.2", "r.example?x", "Pa55word:5000", "correct.horse.battery.s",
		strings.Repeat("a", 200) + ".example",
	} {
		if got := DisplayKey(key); got != hiddenKeyText {
			t.Errorf("%q is shown", key)
		}
	}
}

func TestDisplayUser(t *testing.T) {
	for _, name := range []string{"", "ci", "AWS", "_json_key", "oauth2accesstoken", "$oauthtoken", "$app", "<token>", "robot$team+ci", "00000000-0000-0000-0000-000000000000", "a@b.example", "ci bot"} {
		if got := DisplayUser(name); got != name {
			t.Errorf("%q: %q", name, got)
		}
	}
	for _, name := range []string{"ghp_0123", "glpat-0123", "eyJhbGciOi.e30.x", `{"private_key":""}`, strings.Repeat("x", 500)} {
		if got := DisplayUser(name); got != "a hidden user name" {
			t.Errorf("%q is shown", name)
		}
	}
}

func TestIsLiteralUser(t *testing.T) {
	for user, want := range map[string]bool{
		"$oauthtoken": true, "$app": true, "$token": true, "<token>": true,
		"$CI_REGISTRY_USER": false, "$APP": false, "${token}": false, "<user>": false, "": false,
	} {
		if got := IsLiteralUser(user); got != want {
			t.Errorf("%q: got %v", user, got)
		}
	}
}
