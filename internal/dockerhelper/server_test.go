// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerhelper_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/dockerhelper"
	"github.com/regcred/regcred/match"
)

// formatRequests formats each request as a registry, or as "image" and its repository.
func formatRequests(requests []regcred.Request) string {
	var list []string
	for _, r := range requests {
		if r.Image != "" {
			list = append(list, "image "+r.Image)
		} else {
			list = append(list, r.Registry)
		}
	}
	return strings.Join(list, ", ")
}

// serverNames maps each name that clients send to the requests for it.
var serverNames = map[string]string{
	"r.example":                          "r.example, r.example:443",
	"r.example:443":                      "r.example:443, r.example",
	"r.example:5000":                     "r.example:5000",
	"https://r.example":                  "r.example, r.example:443",
	"HTTPS://r.example":                  "r.example, r.example:443",
	"https://r.example/":                 "r.example, r.example:443",
	"https://r.example:5000":             "r.example:5000",
	"http://r.example":                   "r.example",
	"http://r.example:443":               "r.example:443",
	"http://localhost:5000":              "localhost:5000",
	"localhost":                          "localhost, localhost:443",
	"registry":                           "registry, registry:443",
	"R.Example":                          "R.Example, R.Example:443",
	"10.0.0.1:5000":                      "10.0.0.1:5000",
	"[::1]:5000":                         "[::1]:5000",
	"[::1]":                              "[::1], [::1]:443",
	"[::1]:443":                          "[::1]:443, [::1]",
	"https://r.example/v1/":              "r.example, r.example:443",
	"https://r.example/v2/":              "r.example, r.example:443",
	"https://r.example/v2":               "r.example, r.example:443",
	"r.example/v2/":                      "r.example, r.example:443",
	"r.example/":                         "r.example, r.example:443",
	"r.example/v2":                       "image r.example/v2, image r.example:443/v2",
	"r.example/team/app":                 "image r.example/team/app, image r.example:443/team/app",
	"r.example:443/team/app":             "image r.example:443/team/app, image r.example/team/app",
	"r.example:5000/team/app":            "image r.example:5000/team/app",
	"[::1]:5000/app":                     "image [::1]:5000/app",
	"localhost/app":                      "image localhost/app, image localhost:443/app",
	"https://r.example/team":             "image r.example/team, image r.example:443/team",
	"https://index.docker.io/v1/":        "docker.io, index.docker.io:443",
	"https://index.docker.io/v1":         "docker.io, index.docker.io:443",
	"index.docker.io/v1/":                "docker.io, index.docker.io:443",
	"index.docker.io":                    "docker.io, index.docker.io:443",
	"docker.io":                          "docker.io, docker.io:443",
	"registry-1.docker.io":               "docker.io, registry-1.docker.io:443",
	"registry-1.docker.io:443":           "registry-1.docker.io:443, docker.io",
	"https://registry-1.docker.io":       "docker.io, registry-1.docker.io:443",
	"index.docker.io/library/nginx":      "image docker.io/library/nginx, image index.docker.io:443/library/nginx",
	"registry-1.docker.io/library/nginx": "image docker.io/library/nginx, image registry-1.docker.io:443/library/nginx",
	"docker.io/nginx":                    "image docker.io/nginx, image docker.io:443/nginx",
	"index.docker.io/v1/app":             "image docker.io/v1/app, image index.docker.io:443/v1/app",

	// "docker logout" sends these names, under which docker stores its own tokens.
	"https://index.docker.io/v1/access-token":  "",
	"https://index.docker.io/v1/refresh-token": "",
	"http://r.example/v2/token":                "",
}

func TestRequests(t *testing.T) {
	for name, want := range serverNames {
		got, err := dockerhelper.ParseServer(name)
		if err != nil || formatRequests(got) != want {
			t.Errorf("%q: got %q and %v, want %q", name, formatRequests(got), err, want)
		}
	}
}

// invalidServerNames maps each invalid name to its error.
var invalidServerNames = map[string]string{
	"":                               "must be host[:port]",
	"https://":                       "must be host[:port]",
	"https:///v2/":                   "must be host[:port]",
	"/v2/":                           "must be host[:port]",
	":443":                           "must be host[:port]",
	"r.example:":                     "must be host[:port]",
	"r.example:port":                 "must be host[:port]",
	"r.example:443:443":              "must be host[:port]",
	"r.example.":                     "must be host[:port]",
	"r..example":                     "must be host[:port]",
	".r.example":                     "must be host[:port]",
	"*.r.example":                    "must be host[:port]",
	"r example":                      "invalid character in a registry name",
	"r.example\nevil.example":        "invalid character in a registry name",
	"r.example\x00":                  "invalid character in a registry name",
	"r.example\x1b[2J":               "invalid character in a registry name",
	"\u2170.example":                 "invalid character in a registry name",
	"r%2eexample":                    "must be host[:port]",
	"::1":                            "must be host[:port]",
	"::1:5000":                       "must be host[:port]",
	"[::1":                           "must be host[:port]",
	"[fe80::1%25eth0]:5000":          "must be host[:port]",
	`r.example\team`:                 "must be host[:port]",
	"https://https://r.example":      "must be host[:port]",
	"ftp://r.example":                "must be https or http",
	"oci://r.example/team":           "must be https or http",
	"://r.example":                   "must be https or http",
	"user:hunter2@r.example":         "contains an at sign, question mark, number sign or quotation mark",
	"https://user:hunter2@r.example": "contains an at sign, question mark, number sign or quotation mark",
	"https://r.example@evil.example": "contains an at sign, question mark, number sign or quotation mark",
	"r.example?token=hunter2":        "contains an at sign, question mark, number sign or quotation mark",
	"r.example#hunter2":              "contains an at sign, question mark, number sign or quotation mark",
	`{"ServerURL":"r.example","Username":"u","Secret":"hunter2"}`: "contains an at sign, question mark, number sign or quotation mark",
	"r.example/../evil":                      "invalid reference format",
	"https://r.example/../x":                 "invalid reference format",
	"r.example/team/../app":                  "invalid reference format",
	"r.example/..":                           "invalid reference format",
	"r.example/%2e%2e/app":                   "invalid reference format",
	"r.example//":                            "invalid reference format",
	"r.example/team/":                        "invalid reference format",
	"r.example/Team":                         "invalid reference format",
	"r.example/te am":                        "invalid character in a registry name",
	"library/nginx":                          "must be a registry (localhost, or a name with a dot or a port",
	"team/app":                               "must be a registry (localhost, or a name with a dot or a port",
	"docker/app":                             "must be a registry (localhost, or a name with a dot or a port", // docker.io/docker/app begins so
	"R/\x00\x1b":                             "invalid character in a registry name",
	"r.example/" + strings.Repeat("a", 4000): "invalid reference format",
	strings.Repeat("a", 4000) + "/":          "",
}

func TestParseServerErrors(t *testing.T) {
	for name, want := range invalidServerNames {
		got, err := dockerhelper.ParseServer(name)
		if want == "" && err == nil {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") || len(err.Error()) > 1000 {
			t.Errorf("%.50q: got %q and the error %.1000q, want one with %q", name, formatRequests(got), err, want)
		}
	}
}

// TestServerNameForms verifies that the forms of a server name with and without port 443 are
// equivalent, although they differ for the kubelet. A request for a registry must not return a
// credential for a path.
func TestServerNameForms(t *testing.T) {
	for _, tt := range []struct{ pattern, name, want string }{
		{"r.example", "r.example", "r.example"},
		{"r.example", "r.example:443", "r.example"},
		{"r.example:443", "r.example", "r.example:443"},
		{"r.example:443", "r.example:443", "r.example:443"},
		{"r.example:443", "http://r.example", ""},
		{"r.example", "r.example:5000", ""},
		{"r.example:5000", "r.example", ""},
		{"r.example/team", "r.example", ""},
		{"r.example/team", "https://r.example/v2/", ""},
		{"r.example/team", "r.example/team/app", "r.example/team/app"},
		{"r.example/team", "r.example/other", ""},
		{"r.example", "R.example", ""},
		{"docker.io", "https://index.docker.io/v1/", "docker.io"},
		{"docker.io", "registry-1.docker.io", "docker.io"},
		{"docker.io/library", "index.docker.io/library/nginx", "docker.io/library/nginx"},
		{"docker.io", "library/nginx", ""},
		{"*.example", "r.example", "r.example"},
	} {
		cfg := &config.Config{Providers: []config.Provider{{Name: "p", MatchImages: []string{tt.pattern}}}}
		requests, _ := dockerhelper.ParseServer(tt.name)
		got := ""
		for _, req := range requests {
			if x := regcred.Explain(cfg, req); x.Providers[0].Matched {
				got = cmp.Or(got, x.Repository)
			}
		}
		if got != tt.want {
			t.Errorf("%s, for %s: it is called for %q, want %q", tt.pattern, tt.name, got, tt.want)
		}
	}
}

// FuzzRequests verifies that requests contain only the host and path of the name, with or without
// port 443.
func FuzzRequests(f *testing.F) {
	for name := range serverNames {
		f.Add(name)
	}
	for name := range invalidServerNames {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		requests, err := dockerhelper.ParseServer(name)
		belowAPI := strings.Contains(name, "://") && (strings.Contains(name, "/v1/") || strings.Contains(name, "/v2/"))
		if (err == nil) != (len(requests) > 0) && (err != nil || !belowAPI) || len(requests) > 2 {
			t.Fatalf("%q: %d requests and %v", name, len(requests), err)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n\r\x1b\x00") {
			t.Errorf("%q: the error %q is not one line", name, err)
		}
		_, rest, found := strings.Cut(name, "://")
		if !found {
			rest = name
		}
		host, path, _ := strings.Cut(rest, "/")
		for _, req := range requests {
			asked, askedPath := req.Registry, ""
			if req.Image != "" {
				asked, askedPath, _ = strings.Cut(req.Image, "/")
				if repository, err := match.Repository(req.Image); err != nil || !strings.HasPrefix(repository, asked+"/") {
					t.Errorf("%q: it is called for %q, which is %q: %v", name, req.Image, repository, err)
				}
			}
			if askedPath != "" && askedPath != path {
				t.Errorf("%q: it is called for the path %q", name, askedPath)
			}
			bare := strings.TrimSuffix(host, ":443")
			isHub := bare == "docker.io" || bare == "index.docker.io" || bare == "registry-1.docker.io"
			if asked != bare && asked != bare+":443" && (!isHub || asked != "docker.io") {
				t.Errorf("%q: it is called for the host %q", name, asked)
			}
		}
	})
}
