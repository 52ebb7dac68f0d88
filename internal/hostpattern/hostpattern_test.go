// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package hostpattern_test

import (
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

func TestMatch(t *testing.T) {
	tests := []struct {
		pattern, host string
		want          bool
	}{
		{"r.example", "r.example", true},
		{"R.example", "r.example", false},
		{"r.example", "r.example.evil", false},
		{"r.example", "evil-r.example", false},
		{"*.r.example", "a.r.example", true},
		{"*.r.example", "a.b.r.example", false},
		{"*.r.example", "r.example", false},
		{"r-*.example", "r-1.example", true},
		{"*", "localhost", true},
		{"*", "r.example", false},
		{"r.example:5000", "r.example:5000", true},
		{"r.example", "r.example:5000", false},
		{"*.example:5000", "r.example", false},
		{"*.example:5000", "r.example:5000", true},
		{"[::1]:5000", "[::1]:5000", true},
		{"[::1]", "[::1]", false},
		{"r?example", "r.example", false},
		{"[a-z].example", "r.example", false},
		{`\r.example`, "r.example", false},
		{"*.example/team", "r.example", false},
		{"", "", false},
		{"", "r.example", false},
		{"r.example/", "r.example", false},
		{"r.example#f", "r.example", false},
		{"u@r.example", "r.example", false},
		{"r%c3%a9.example", "r\u00e9.example", false},
		{"r.example", "u@r.example", false},
		{"r.example:x", "r.example:x", false},
		{"r.example:", "r.example", true},
		{"*", "[::1]", false},
		{"*:5000", "[::1]:5000", false},
	}
	for _, tt := range tests {
		if got := hostpattern.Match(tt.pattern, tt.host); got != tt.want {
			t.Errorf("Match(%q, %q) = %v", tt.pattern, tt.host, got)
		}
	}
}

// FuzzMatch verifies that the kubelet accepts every match that Match accepts.
func FuzzMatch(f *testing.F) {
	f.Add("*.r.example", "a.r.example")
	f.Add("[::1]:5000", "[::1]:5000")
	f.Add("r-*.example:5000", "r-1.example:5000")
	f.Add("*0", "#0") // a kubelet parses #0 as a fragment
	f.Fuzz(func(t *testing.T, pattern, host string) {
		if (&plugin.Request{Image: host + "/x"}).Registry() != host {
			return
		}
		same, err := match.Parse(host)
		if err != nil || !same.Match(host+"/x") || !hostpattern.Match(pattern, host) {
			return // host cannot be the host of an image, or does not match
		}
		p, err := match.Parse(pattern)
		if err != nil || !p.Match(host+"/x") {
			t.Errorf("%q matches %q, and not in a kubelet (%v)", pattern, host, err)
		}
	})
}

func TestValidate(t *testing.T) {
	form, strangers, brackets := "must have the form host[:port]", "would send the password to third-party hosts", "an address in brackets needs a port"
	for pattern, want := range map[string]string{
		"r.example":         "",
		"r.example:5000":    "",
		"localhost":         "",
		"localhost:5000":    "",
		"*.r.example":       "",
		"r-*.r.example:443": "",
		"[::1]:5000":        "",
		"*.example":         strangers,
		"r.*":               strangers,
		"r.*:5000":          strangers,
		"*":                 strangers,
		"*:5000":            strangers,
		"":                  form,
		"https://r.example": form,
		"r.example/team":    form,
		"r.example:port":    form,
		"user@r.example":    form,
		"r example":         form,
		"r..example":        form,
		".r.example":        form,
		"r?.r.example":      form,
		"[::1]":             brackets,
		"[]:5000":           brackets,
		"[:]:5000":          brackets,
	} {
		err := hostpattern.Validate(pattern)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", pattern, err, want)
		}
	}
}

func TestAny(t *testing.T) {
	patterns := []string{"*.R.example", "other.example:5000"}
	for host, want := range map[string]bool{
		"a.r.example":        true,
		"A.R.EXAMPLE":        true,
		"other.example:5000": true,
		"other.example":      false,
		".r.example":         false,
		"a..r.example":       false,
		"":                   false,
	} {
		if got := hostpattern.MatchAny(patterns, host); got != want {
			t.Errorf("%q: got %v, want %v", host, got, want)
		}
	}
}

func TestIsName(t *testing.T) {
	for s, want := range map[string]bool{
		"r.example": true, "R-1.example.": true, "localhost": true, "10.0.0.1": true,
		"": false, ".": false, ".r": false, "a..b": false, "-r.example": false, "r-.example": false, "r_1.example": false,
		"r.example:1": false, "r/x": false, "u@r": false, "r\u00e9.example": false, strings.Repeat("a.", 127) + "a": false,
	} {
		if got := hostpattern.IsHostname(s); got != want {
			t.Errorf("%.40q: got %v, want %v", s, got, want)
		}
	}
}

func TestValidateSuffix(t *testing.T) {
	for pattern, want := range map[string]string{
		"*.co.uk":                           `"co.uk"`,
		"r-*.github.io":                     `"github.io"`,
		"*.GitHub.io:443":                   `"github.io"`,
		"*.compute.amazonaws.com":           `"*.compute.amazonaws.com"`,
		"*.eu-west-1.compute.amazonaws.com": `"eu-west-1.compute.amazonaws.com"`,
		"r.*.compute.amazonaws.com":         `"*.compute.amazonaws.com"`,
		"*.example":                         "last two labels",
		"https://r.example":                 "must have the form host[:port]",
		"*.r.github.io":                     "",
		"*.shop.co.uk":                      "",
		"r.github.io":                       "",
		"co.uk":                             "",
		"[::1]:5000":                        "",
		"*.azurecr.io":                      "",
		"*-docker.pkg.dev":                  "",
		"*.dkr.ecr.*.amazonaws.com":         "",
		"*.svc.cluster.local":               "",
		"*.registry.example:5000":           "",
		"*.*.registry.internal":             "",
		"*.ck":                              "last two labels",
		"*.a.ck":                            `"a.ck"`,
		"*.www.ck":                          "",
		"*.xn--55qx5d.cn:5000":              `"xn--55qx5d.cn"`,
	} {
		err := hostpattern.Validate(pattern)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", pattern, err, want)
		}
	}
}
