// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package route_test

import (
	"testing"

	"github.com/regcred/regcred/internal/route"
)

func TestParse(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for image, want := range map[string]struct {
		text  string
		host  string
		short bool
	}{
		"nginx":                         {"docker.io/library/nginx:latest", "docker.io", true},
		"team/app:1":                    {"docker.io/team/app:1", "docker.io", true},
		"docker.io/nginx":               {"docker.io/library/nginx:latest", "docker.io", false},
		"localhost/a":                   {"localhost/a:latest", "localhost", false},
		"quay.io:8443/a/b":              {"quay.io:8443/a/b:latest", "quay.io:8443", false},
		"quay.io:8443/a/b:1":            {"quay.io:8443/a/b:1", "quay.io:8443", false},
		"quay.io:8443/a/b:1@" + digest:  {"quay.io:8443/a/b@" + digest, "quay.io:8443", false},
		"index.docker.io/library/nginx": {"docker.io/library/nginx:latest", "docker.io", false},
	} {
		got, err := route.Parse(image)
		if err != nil || got.String() != want.text || got.Host != want.host || got.HasNoHost != want.short {
			t.Errorf("%s is %s of %s (short: %v), %v; want %+v", image, got, got.Host, got.HasNoHost, err, want)
		}
	}
	if _, err := route.Parse("quay.io/A"); err == nil {
		t.Error("quay.io/A is an image")
	}
}

func TestString(t *testing.T) {
	mirror, origin := route.NewHop("https", "m.example", "/v2/q/", "a"), route.NewHop("https", "quay.io", "/v2", "a")
	origin.IsOrigin = true
	header, own, silent := mirror, mirror, mirror
	header.Credential, own.Credential = route.CredentialHeader, route.CredentialRuntime
	silent.SkippedForLayers, silent.Skipped = true, "blocked"
	plain := route.NewHop("http", "m.example:5000", "", "b/a")
	plain.Skipped = "without \"pull\""
	either := route.NewHop("http", "quay.io", "/v2", "a")
	either.IsOrigin, either.TriesHTTPSFirst = true, true // no scheme, because both are tried
	const credential = " the credential for quay.io/a"
	for want, way := range map[string]route.Route{
		"containerd cannot pull quay.io/a: it is broken":                                                                                                             {FailureReason: "it is broken"},
		"containerd has no host to pull quay.io/a from":                                                                                                              {Hops: []route.Hop{silent}},
		"containerd tries quay.io itself; a host that requires authentication gets" + credential:                                                                     {Hops: []route.Hop{silent, origin}},
		"containerd tries quay.io itself, then quay.io itself; a host that requires authentication gets" + credential:                                                {Hops: []route.Hop{origin, either}},
		"containerd tries m.example/v2/q, then quay.io itself; a host that requires authentication gets" + credential:                                                {Hops: []route.Hop{mirror, origin}},
		"containerd tries m.example/v2/q, then m.example/v2/q, then quay.io itself; a host that requires authentication gets" + credential:                           {Hops: []route.Hop{mirror, mirror, origin}},
		"containerd tries http://m.example:5000 (for b/a) (without \"pull\"); a host that requires authentication gets" + credential:                                 {Hops: []route.Hop{plain}},
		"containerd tries m.example/v2/q, then quay.io itself; quay.io itself gets" + credential + "; m.example/v2/q gets a credential from the runtime's own files": {Hops: []route.Hop{own, origin}},
		"containerd tries m.example/v2/q; m.example/v2/q gets the Authorization header from its hosts.toml, then the credential for quay.io/a":                       {Hops: []route.Hop{header}},
	} {
		way.Runtime, way.Repository = "containerd", "quay.io/a"
		if got := way.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestDescribe verifies the description of a route with the runtime's own credentials, with and
// without a credential of the kubelet.
func TestDescribe(t *testing.T) {
	mirror, origin := route.NewHop("https", "m.example", "/v2", "a"), route.NewHop("https", "quay.io", "/v2", "a")
	origin.IsOrigin = true
	mirror.CredentialFile, mirror.CredentialLine = "/c.toml", 4
	header := origin
	header.Credential, header.File, header.Line = route.CredentialHeader, "/hosts.toml", 2
	const tries, what = "containerd tries m.example, then quay.io itself; ", "the credential for quay.io/a"
	for name, tt := range map[string]struct {
		hops                    []route.Hop
		unknown, none, sent, at string
	}{
		"a mirror": {[]route.Hop{mirror, origin},
			tries + "quay.io itself gets " + what + "; m.example gets " + what + " or, without one, containerd's own credential (/c.toml:4)",
			tries + "the kubelet sends no credential: m.example gets containerd's own credential (/c.toml:4); quay.io itself gets no credential",
			tries + "a host that requires authentication gets " + what + "; containerd's own credential for m.example (/c.toml:4) is not used",
			"m.example (/c.toml:4)"},
		"a header": {[]route.Hop{mirror, header},
			tries + "m.example gets " + what + " or, without one, containerd's own credential (/c.toml:4); quay.io itself gets the Authorization header from its hosts.toml, then " + what,
			tries + "the kubelet sends no credential: m.example gets containerd's own credential (/c.toml:4); quay.io itself gets the Authorization header from its hosts.toml",
			tries + "m.example gets " + what + "; quay.io itself gets the Authorization header from its hosts.toml, then " + what + "; containerd's own credential for m.example (/c.toml:4) is not used",
			"m.example (/c.toml:4), quay.io (/hosts.toml:2)"},
	} {
		t.Run(name, func(t *testing.T) {
			way := route.Route{Runtime: "containerd", Repository: "quay.io/a", Hops: tt.hops}
			for want, got := range map[string]string{tt.unknown: way.String(), tt.none: way.Describe(false), tt.sent: way.Describe(true), tt.at: way.OwnCredentials()} {
				if got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			}
			if found := way.AnonymousFindings(); len(found) != 0 {
				t.Errorf("the mirror has a credential: %v", found)
			}
		})
	}
}
