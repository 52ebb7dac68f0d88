// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerhelper_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/dockerhelper"
)

func TestHosts(t *testing.T) {
	for pattern, want := range map[string]string{
		"r.example":            "r.example",
		"r.example:5000":       "r.example:5000",
		"r.example:":           "r.example",
		"R.example":            "R.example",
		"localhost":            "localhost",
		"localhost:5000":       "localhost:5000",
		"10.0.0.1:5000":        "10.0.0.1:5000",
		"[::1]:5000":           "[::1]:5000",
		"docker.io":            "docker.io",
		"u@r.example":          "r.example",
		"[::1]":                "", // a kubelet parses it as a character class
		"index.docker.io":      "", // image names contain docker.io
		"registry-1.docker.io": "",
		"r.example/":           "",
		"r.example/team":       "",
		"*.r.example":          "",
		"r-*.example:5000":     "",
		"*":                    "",
		"https://r.example":    "",
		"r%c3%a9.example":      "",
		"r_1.example":          "", // invalid as an image's host
		"registry":             "", // registry/app is on Docker Hub
		"registry:5000":        "registry:5000",
		"r..example":           "",
		"r.example:x":          "",
		"":                     "",
	} {
		cfg := &config.Config{Providers: []config.Provider{{Name: "p", MatchImages: []string{pattern}}}}
		var wants []string
		if want != "" {
			wants = []string{want}
		}
		if diff := cmp.Diff(wants, dockerhelper.ExactHosts(cfg)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", pattern, diff)
		}
		// A returned host must match a provider. Otherwise a client would have a helper without
		// credentials.
		if x := regcred.Explain(cfg, regcred.Request{Registry: want}); want != "" && !x.Providers[0].Matched {
			t.Errorf("%q: no provider is called for the registry %q: %s", pattern, want, x.Providers[0].Reason)
		}
	}
}

func TestHostsOfSeveral(t *testing.T) {
	pods := func(required bool) *config.TokenAttributes {
		return &config.TokenAttributes{RequireServiceAccount: &required}
	}
	got := dockerhelper.ExactHosts(&config.Config{Providers: []config.Provider{
		{Name: "a", MatchImages: []string{"z.example", "*.a.example", "a.example:5000"}},
		{Name: "b", MatchImages: []string{"a.example:5000", "b.example/team", "b.example", "z.example"}},
		{Name: "c", MatchImages: []string{"pods.example"}, TokenAttributes: pods(true)},
		{Name: "d", MatchImages: []string{"all.example"}, TokenAttributes: pods(false)},
	}})
	if diff := cmp.Diff([]string{"z.example", "a.example:5000", "b.example", "all.example"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := dockerhelper.ExactHosts(&config.Config{}); len(got) != 0 {
		t.Errorf("no configuration: got %q", got)
	}
}
