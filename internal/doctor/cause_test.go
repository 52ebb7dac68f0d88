// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"testing"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/probe"
)

func TestFindCause(t *testing.T) {
	const file = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: p\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  defaultCacheDuration: 1m\n  matchImages: [r.acme.net]\n"
	cfg := must.Get(config.Parse("c.yaml", []byte(file)))(t)
	failed := func(check, message, fix string) Finding {
		return Finding{Check: check, Finding: finding.Finding{Severity: finding.SeverityError, Message: message, Fix: fix}}
	}
	challenged := []*probe.Result{{Challenge: &probe.Challenge{}}}
	const change = `no pattern matches; c.yaml:7: change "r.acme.net" to "r.amce.net"`
	for _, tt := range []struct {
		name      string
		image     string
		unmatched int
		hosts     []*probe.Result
		list      []Finding
		want      string
	}{
		{"a typo in the pattern", "r.amce.net/app:1", 1, challenged, []Finding{failed("manifest", "HTTP 401", "")}, change},
		{"the image's host does not exist", "r.amce.net/app:1", 1, nil, []Finding{failed("dns", "no such host", "")},
			`no pattern matches; the image's host is misspelled: change "r.amce.net/app:1" to "r.acme.net/app:1" in the pod`},
		{"a registry without authentication", "r.amce.net/app:1", 1, []*probe.Result{{}}, []Finding{failed("manifest", "HTTP 404", "check the tag")}, "HTTP 404; check the tag"},
		{"no near pattern", "quay.io/app:1", 1, challenged, []Finding{failed("manifest", "HTTP 401", "")}, "HTTP 401"},
		{"an invalid configuration", "r.amce.net/app:1", 1, challenged, []Finding{failed("manifest", "HTTP 401", ""), failed("config", "invalid", "fix it")}, "invalid; fix it"},
		{"a lint error is no cause", "r.acme.net/app:1", 0, challenged, []Finding{failed("lint", "x", ""), failed("manifest", "HTTP 403", "allow it"), failed("pull", "would fail", "")}, "HTTP 403; allow it"},
		{"unknown", "r.acme.net/app:1", 0, nil, []Finding{failed("pull", "unknown result", "")}, ""},
	} {
		i := &Image{Reference: tt.image, config: cfg, unmatched: tt.unmatched, result: &ImageResult{Hosts: tt.hosts}}
		if got := findCause(tt.list, i); got != tt.want {
			t.Errorf("%s: got %s\nwant %s", tt.name, got, tt.want)
		}
	}
	if got := findCause([]Finding{failed("manifest", "x", "")}, &Image{result: &ImageResult{CanPull: true}}); got != "" {
		t.Errorf("a pull that works: got %s", got)
	}
}

func TestNearMissKey(t *testing.T) {
	i := &Image{Reference: "registry.acme.com/team/app:1"}
	for key, want := range map[string]string{
		"registry.amce.com":             `change the key "registry.amce.com" to "registry.acme.com"`,
		"https://registry.amce.com/v1/": `change the key "https://registry.amce.com/v1/" to "https://registry.acme.com/v1/"`,
		"registry.acme.com:5000":        "",
		"quay.io":                       "",
		"mirror.acme.com":               "",
		"a hidden key":                  "",
	} {
		if got := i.nearMissKey([]string{key}); got != want {
			t.Errorf("%s: got %s, want %s", key, got, want)
		}
	}
}
