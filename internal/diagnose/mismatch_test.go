// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package diagnose

import (
	"testing"

	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/internal/must"
)

// TestMismatchSimilarity verifies the ranking of patterns that do not match an image. They are
// listed from least to most similar.
func TestMismatchSimilarity(t *testing.T) {
	for image, patterns := range map[string][]string{
		"a.r.io:80/team/app": {"s.com", "*.*", "*.*.*:81", "s.r.io", "a.r.io", "a.r.io:80/x", "a.r.io:80/team/x"},
		"111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn/app": {
			"*.azurecr.cn", "*.*.*.*.*.*.*:5000", "*.dkr.ecr.*.amazonaws.com", "*.dkr.ecr.*.amazonaws.com.cn:443", "*.dkr.ecr.*.amazonaws.com.cn/team",
		},
		"111122223333.dkr.ecr.eu-west-1.amazonaws.com/app": {
			"*.*.*.*.example.com", "public.ecr.aws", "*.dkr.ecr.*.amazonaws", "*.dkr.ecr.amazonaws.com", "444455556666.dkr.ecr.eu-west-1.amazonaws.com",
		},
		"111122223333.dkr-ecr.eu-west-1.on.aws/app": {"*.*.*.example.com", "*.dkr.ecr.*.amazonaws.com", "*.dkr-ecr.*.on.aws/x"},
		"team.azurecr.cn/app":                       {"*.gcr.io", "*.*", "*.azurecr.io", "other.azurecr.cn"},
		"team.azurecr.us/app":                       {"*.dkr.ecr.*.amazonaws.com", "*.azurecr.io"},
		"europe-docker.pkg.dev/project/repo":        {"*.io", "*-docker.gcr.dev", "*.gcr.io", "pkg.dev", "us-docker.pkg.dev"},
		"gcr.io/project/app":                        {"ghcr.io", "*.pkg.dev", "*.gcr.io", "gcr.io/other"},
		"ghcr.io/org/app":                           {"*.gcr.io", "*.*:80", "docker.pkg.github.com", "*.ghcr.io", "ghcr.io/other"},
		"registry.example.co.uk/app":                {"registry.other.co.uk", "registry.example.com", "harbor.example.co.uk", "*.registry.example.co.uk"},
		"docker.io/library/nginx":                   {"docker.example.com", "ghcr.io", "docker.io/team", "docker.io/library/alpine"},
		"10.1.2.3:5000/app":                         {"172.1.2.3:5000", "10.2.2.3:5000", "10.1.9.9:5000", "10.1.2.3"},
		"localhost:5000/app":                        {"localhost.example:5000", "localhost:5001"},
	} {
		at := must.Get(location.Parse(image))(t)
		last, before := -1<<31, ""
		for _, s := range patterns {
			p := must.Get(location.ParsePattern(s))(t)
			m := ComparePattern(p, at)
			if m.Reason == "" {
				t.Errorf("%s: %q matches", image, s)
			}
			if m.Similarity <= last {
				t.Errorf("%s: %q (%#x) is not more similar than %q (%#x)", image, s, m.Similarity, before, last)
			}
			last, before = m.Similarity, s
		}
	}
}

// TestMismatchUnrelated verifies that patterns for domains of other owners have a negative
// similarity.
func TestMismatchUnrelated(t *testing.T) {
	for image, patterns := range map[string][]string{
		"registry.example/app":       {"tenants.example", "*.dkr.ecr.*.amazonaws.com", "docker.io"},
		"registry.example.co.uk/app": {"registry.other.co.uk", "co.uk"},
		"ghcr.io/app":                {"gcr.io", "*.gcr.io", "quay.io"},
		"10.0.0.1:5000/app":          {"11.0.0.1:5000", "r.example:5000"},
		"docker.io/library/nginx":    {"docker.example.com", "docker.pkg.dev"},
		"public.ecr.aws/app":         {"ecr.example.com"},
		"r.acme1.com/app":            {"r.acme2.com"},
		"r.shop-a.com/app":           {"r.shop-b.com"},
		"r.acme.com/team/app":        {"r.amce.com:5000", "r.amce.com/other"},
	} {
		for _, s := range patterns {
			at, _ := location.Parse(image)
			if p, err := location.ParsePattern(s); err != nil || ComparePattern(p, at).Similarity >= 0 || ComparePattern(p, at).Suggestion != "" {
				t.Errorf("%s: %q: %+v", image, s, ComparePattern(p, at))
			}
		}
	}
}

func TestMismatchReason(t *testing.T) {
	tests := []struct{ pattern, image, reason, instead string }{
		{
			"*.dkr.ecr.*.amazonaws.com", "1.dkr.ecr.cn-north-1.amazonaws.com.cn/app",
			`host: the pattern ends in "com", but the image host ends in "com.cn"`, "*.dkr.ecr.*.amazonaws.com.cn",
		},
		{
			"*.dkr.ecr.*.amazonaws.com.cn", "1.dkr.ecr.eu-west-1.amazonaws.com/app",
			`host: the pattern ends in "com.cn", but the image host ends in "com"`, "*.dkr.ecr.*.amazonaws.com",
		},
		{
			"*.dkr.ecr.amazonaws.com", "1.dkr.ecr.eu-west-1.amazonaws.com/app",
			`host: 1 label too short: "*.dkr.ecr.amazonaws.com" has 5 labels, but "1.dkr.ecr.eu-west-1.amazonaws.com" has 6 labels (a * matches one label)`,
			"*.dkr.ecr.eu-west-1.amazonaws.com",
		},
		{
			"*.dkr.ecr.amazonaws.com", "1.dkr.ecr.cn-north-1.amazonaws.com.cn/app",
			`host: 2 labels too short: "*.dkr.ecr.amazonaws.com" has 5 labels, but "1.dkr.ecr.cn-north-1.amazonaws.com.cn" has 7 labels (a * matches one label)`,
			"*.dkr.ecr.cn-north-1.amazonaws.com.cn",
		},
		{
			"*.corp.example", "a.b.corp.example/app",
			`host: 1 label too short: "*.corp.example" has 3 labels, but "a.b.corp.example" has 4 labels (a * matches one label)`, "*.*.corp.example",
		},
		{
			"*.gcr.io", "gcr.io/app",
			`host: 1 label too long: "*.gcr.io" has 3 labels, but "gcr.io" has 2 labels (a * matches one label)`, "gcr.io",
		},
		{
			"*.gcr.io", "a.b.c.gcr.io/app",
			`host: 2 labels too short: "*.gcr.io" has 3 labels, but "a.b.c.gcr.io" has 5 labels (a * matches one label)`, "a.b.*.gcr.io",
		},
		{"*.azurecr.io/team/", "team.azurecr.cn/team/app", `last label: "cn" does not match "io"`, "*.azurecr.cn/team/"},
		{"eu.registry.example", "us.registry.example/a", `label 1: "us" does not match "eu"`, "us.registry.example"},
		{"REGISTRY.example.com", "registry.example.com/a", `label 1: "registry" does not match "REGISTRY" (matching is case-sensitive)`, "registry.example.com"},
		{"registry.example", "registry.example:5000/a", "port: the image has 5000, but the pattern has none", "registry.example:5000"},
		{"registry.example:443/a", "registry.example/a/b", "port: the pattern has 443, but the image has none", "registry.example/a"},
		{"registry.example/team/b", "registry.example/team/a", `path: "/team/a" does not begin with "/team/b"`, "registry.example/team/a"},
		{"registry.example/b", "registry.example/team/a", `path: "/team/a" does not begin with "/b"`, "registry.example/team/"},
		{"registry.example/team/*", "registry.example/team/a", `path: "/team/a" does not begin with "/team/*" (globs do not work in paths)`, "registry.example/team/"},
		{"registry.example/*", "registry.example/a", `path: "/a" does not begin with "/*" (globs do not work in paths)`, "registry.example"},
		{"registry.example/a:v1", "registry.example/a", `path: "/a" does not begin with "/a:v1" (matching ignores tags and digests)`, "registry.example/a"},
		{
			"registry.example/a@sha256:00", "registry.example/a",
			`path: "/a" does not begin with "/a@sha256:00" (matching ignores tags and digests)`, "registry.example/a",
		},
		{"registry.example/Team/", "registry.example/team/a", `path: "/team/a" does not begin with "/Team/" (image paths must be lowercase)`, "registry.example/team/"},
		{"registry.example/a/", "registry.example/a", `path: "/a" does not begin with "/a/" (the trailing slash in the pattern requires a longer image path)`, "registry.example/a"},
		{
			"docker.io/nginx", "docker.io/library/nginx",
			`path: "/library/nginx" does not begin with "/nginx" (official Docker Hub images are in library/)`, "docker.io/library/nginx",
		},
		{"https://registry.example/team", "registry.example/team/a", `scheme: patterns cannot have a scheme, so "https" is parsed as the host`, "registry.example/team"},
		{"http://quay.other/team", "registry.example/team/a", `scheme: patterns cannot have a scheme, so "http" is parsed as the host`, ""},
		{"index.docker.io", "docker.io/library/nginx", "host: Docker Hub images are matched as docker.io/…, not index.docker.io/…", "docker.io"},
		{"hub.docker.com/team", "docker.io/team/app", "host: Docker Hub images are matched as docker.io/…, not hub.docker.com/…", "docker.io/team"},
		{"nginx", "docker.io/library/nginx", "host: the pattern has no host, but Docker Hub images are matched as docker.io/…", "docker.io/library/nginx"},
		{"team/app", "docker.io/team/app", "host: the pattern has no host, but Docker Hub images are matched as docker.io/…", "docker.io/team/app"},
		{"[::1]", "[::1]:5000/a", `label 1: "::1" does not match "[::1]"`, ""},
		{"registry.exmaple.com", "registry.example.com/a", `label 2: "example" does not match "exmaple" (two letters are swapped in the pattern)`, "registry.example.com"},
		{"registry.acmme.com/team", "registry.acme.com/team/a", `label 2: "acme" does not match "acmme" (there is an extra letter in the pattern)`, "registry.acme.com/team"},
		{"registry.example.con", "registry.example.com/a", `last label: "com" does not match "con" (one letter differs in the pattern)`, "registry.example.com"},
		{"localhsot:5555", "localhost:5555/a", `label 1: "localhost" does not match "localhsot" (two letters are swapped in the pattern)`, "localhost:5555"},
		{"localhost:5555/taem", "localhost:5555/team/a", `path: "/team/a" does not begin with "/taem" (two letters are swapped)`, "localhost:5555/team/"},
		{"*.dkr.ecr.*.amazonaw.com", "1.dkr.ecr.eu-west-1.amazonaws.com/a", `label 5: "amazonaws" does not match "amazonaw" (a letter is missing in the pattern)`, "*.dkr.ecr.*.amazonaws.com"},
		{"*-dokcer.pkg.dev", "europe-docker.pkg.dev/p/a", `label 1: "europe-docker" does not match "*-dokcer" (two letters are swapped in the pattern)`, "*-docker.pkg.dev"},
		{"harborcorp.net", "harbor.corp.net/a", `host: 1 label too short: "harborcorp.net" has 2 labels, but "harbor.corp.net" has 3 labels (a * matches one label)`, "harbor.corp.net"},
		{"registry.example.com", "registry.exmaple.com/a", `label 2: "exmaple" does not match "example" (two letters are swapped in the image)`, "image: registry.example.com"},
		{"localhost:5555", "localhsot:5555/a", `label 1: "localhsot" does not match "localhost" (two letters are swapped in the image)`, "image: localhost:5555"},
		{"registry1.a.io", "registry2.a.io/a", `label 1: "registry2" does not match "registry1"`, "registry2.a.io"},
		{"quay.io", "registry.example/a", `label 1: "registry" does not match "quay"`, ""},
	}
	for _, tt := range tests {
		p := must.Get(location.ParsePattern(tt.pattern))(t)
		at := must.Get(location.Parse(tt.image))(t)
		m := ComparePattern(p, at)
		if m.ImageHost != "" {
			m.Suggestion = "image: " + m.ImageHost
		}
		if m.Reason != tt.reason || m.Suggestion != tt.instead {
			t.Errorf("%q for %s:\ngot  %s (%s)\nwant %s (%s)", tt.pattern, tt.image, m.Reason, m.Suggestion, tt.reason, tt.instead)
		}
	}
}

// TestMismatchProposal checks that the suggested pattern is not wider than the original. It has no
// new glob in the owner's domain, at most one more glob elsewhere, and an equally deep path.
func TestMismatchProposal(t *testing.T) {
	for _, tt := range []struct{ pattern, image, instead string }{
		{"*.aws.ecr/a", "public.ecr.aws/a", "public.ecr.aws/a"},
		{"*.gcr.io", "europe-docker.pkg.dev/project/a", "*.pkg.dev"},
		{"10.*.0.5.docker", "docker.io/a", "docker.io"},
		{"mcr.microsoft.*.azurecr", "mcr.microsoft.com/a", "mcr.microsoft.com"},
		{"registry.*.com.example", "registry.example.com/a", "registry.example.com"},
		{"us-docker.*.dev.pkg", "us-docker.pkg.dev/a", "us-docker.pkg.dev"},
		{"*.amazonaws.com", "1.dkr.ecr.eu-west-1.amazonaws.com/a", "1.dkr.ecr.*.amazonaws.com"},
		{"1.dkr.*.amazonaws.com", "1.dkr.ecr.eu-west-1.amazonaws.com/a", "1.dkr.ecr.*.amazonaws.com"},
		{"registry.example.*/a", "registry.example.com/b", "registry.example.*/b"},
		{"registry.example/team/*", "registry.example/team/a", "registry.example/team/"},
		{"registry.example/team/a:*", "registry.example/team/a", "registry.example/team/a"},
	} {
		p, _ := location.ParsePattern(tt.pattern)
		at := must.Get(location.Parse(tt.image))(t)
		if m := ComparePattern(p, at); m.Suggestion != tt.instead {
			t.Errorf("%q for %s: instead %q, want %q", tt.pattern, tt.image, m.Suggestion, tt.instead)
		}
	}
}

// FuzzMismatch checks that there is a reason exactly if the pattern does not match, and that a
// suggested pattern matches.
func FuzzMismatch(f *testing.F) {
	f.Add("*.dkr.ecr.*.amazonaws.com", "1.dkr.ecr.eu.amazonaws.com.cn/a")
	f.Add("https://a.b/c", "a.b/c")
	f.Add("team/app", "docker.io/team/app")
	f.Add("[::1]", "[::1]:80/a")
	f.Add("docker.io/a/*", "docker.io/library/a")
	f.Fuzz(func(t *testing.T, pattern, image string) {
		p, err := location.ParsePattern(pattern)
		at, err2 := location.Parse(image)
		if err != nil || err2 != nil {
			return
		}
		m := ComparePattern(p, at)
		if p.Match(at) != (m.Reason == "") || p.Match(at) != (m.Similarity == maxSimilarity) || m.Similarity > maxSimilarity {
			t.Errorf("%q, %q: matches %v, but %+v", pattern, image, p.Match(at), m)
		}
		if m.Suggestion == "" {
			return
		}
		if q, err := location.ParsePattern(m.Suggestion); err != nil || !q.Match(at) {
			t.Errorf("%q, %q: %q does not match", pattern, image, m.Suggestion)
		}
	})
}
