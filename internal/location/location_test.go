// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package location

import (
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
)

// naiveLocation parses with net/url, as the kubelet does. This requires Go 1.26 or later and the
// default GODEBUG.
func naiveLocation(s string) (Location, error) {
	u, err := url.Parse("https://" + s)
	if err != nil {
		return Location{}, err
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		host, port = u.Host, ""
	}
	return Location{host, port, u.Path, strings.Count(host, ".") + 1}, nil
}

// naiveMatch is a simple implementation of the kubelet's matching rule.
func naiveMatch(pattern, image string) bool {
	p, err := naiveLocation(pattern)
	if err != nil {
		return false
	}
	i, err := naiveLocation(image)
	if err != nil {
		return false
	}
	pl, il := strings.Split(p.Host, "."), strings.Split(i.Host, ".")
	if p.Port != i.Port || len(pl) != len(il) || !strings.HasPrefix(i.Path, p.Path) {
		return false
	}
	for k := range pl {
		if ok, err := filepath.Match(pl[k], il[k]); !ok || err != nil {
			return false
		}
	}
	return true
}

var locationSeeds = []string{
	"", "/", "a", "a/b", "a.b:80/c", "a.b:", ":80", "a:80:80", "::1", "[::1]", "[::1]:5000/x", "[::1", "::1]", "a]b:80",
	"a].io:80/x", "x[::1]", "[fe80::1%25eth0]/x", "[fe80::1%25e%20n]:1", "[fe80::1%25%5d]:80", "[fe80::1%25%5d:80]", "[fe80::1%25%5b]:80", "[fe80::1%25a:80]", "[1.2.3.4]", "[::ffff:1.2.3.4]/x",
	"user@a.b/c", "us:er@a.b", "u%zz@a", "u s@a", "a@b@c/d", "a.b?q", "a.b?q#f", "a?b?c", "a?", "a#%zz", "a#%41",
	"a/%41", "a/%4", "a/%zz", "a/%2541", "a%41b/c", "a%ff/c", "a%25b", "a b/c", "a/b c", "a\\b", "A.io", "\x7f", "a\n", "a/\xff",
	"é.io/x", "a..b", ".a", "a.", "*.io", "**.io", "a*b*c.io", "reg[ab].io", "<a>\"b\"", "a!$&'()*+,;=~_-", "https://a.b/c", "[]", "[*]",
}

func TestLocation(t *testing.T) {
	for _, s := range locationSeeds {
		checkLocation(t, s)
	}
}

func checkLocation(t *testing.T, s string) {
	t.Helper()
	got, gotErr := Parse(s)
	want, wantErr := naiveLocation(s)
	if (gotErr == nil) != (wantErr == nil) || got != want {
		t.Errorf("Parse(%q) = %+v, %v; net/url: %+v, %v", s, got, gotErr, want, wantErr)
	}
}

// TestParseOldURLRule compares IsValidBeforeKubelet136 with net/url. GODEBUG makes net/url apply its older
// rule.
func TestParseOldURLRule(t *testing.T) {
	t.Setenv("GODEBUG", "urlstrictcolons=0")
	loose := 0
	for _, s := range append(locationSeeds, "a:80:", "a:80:x", "a::80", ":::", "u:p@a:80:80/x", "a:b.c:80", "[::1]:80:80", "a:80:80%41", "[a:80:80") {
		_, wantErr := naiveLocation(s)
		if got := IsValidBeforeKubelet136(s); got != (wantErr == nil) {
			t.Errorf("ParsesBefore136(%q) = %t; net/url: %v", s, got, wantErr)
		}
		if _, err := Parse(s); err != nil && wantErr == nil {
			loose++
		}
	}
	if loose < 5 {
		t.Errorf("only %d texts are a pattern only for older kubelets", loose)
	}
}

func FuzzLocation(f *testing.F) {
	for _, s := range locationSeeds {
		f.Add(s)
	}
	f.Fuzz(checkLocation)
}

func FuzzMatch(f *testing.F) {
	for i, p := range locationSeeds {
		f.Add(p, p)
		f.Add(p, locationSeeds[(i+7)%len(locationSeeds)])
	}
	f.Add("*.*.io/x", "a.b.io/xy")
	f.Add("a*c.io", "abbc.io/x")
	f.Add("*a*.io", "bab.io/x")
	f.Fuzz(func(t *testing.T, pattern, image string) {
		want := naiveMatch(pattern, image)
		p, err := ParsePattern(pattern)
		if err != nil {
			if want {
				t.Errorf("ParsePattern(%q): %v, but it matches %q", pattern, err, image)
			}
			return
		}
		at, err := Parse(image)
		if got := err == nil && p.Match(at); got != want {
			t.Errorf("%q.Match(%q) = %v, want %v", pattern, image, got, want)
		}
	})
}
