// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/lint/internal/imagename"
	"github.com/regcred/regcred/match"
)

// lintPattern returns the findings for a provider that has only the given pattern.
func lintPattern(pattern string, tokens bool) []finding.Finding {
	p := lintProvider("example", pattern)
	if tokens {
		p = lintTokens(p, nil)
	}
	return Check(&config.Config{Providers: []config.Provider{p}})
}

func TestLintPatterns(t *testing.T) {
	const registries, drop, ipv6 = "list the registries, using one * for each label", "", "list each host separately, and put an IPv6 address in brackets, followed by the port"
	tests := map[string][]string{
		// Patterns without findings.
		"registry.example.com":       nil,
		"registry.example.com:5000":  nil,
		"registry.example.com/team/": nil,
		"registry.example.com/team-": nil,
		"registry:5000":              nil,
		"localhost":                  nil,
		"localhost:5000":             nil,
		"10.0.0.1:5000":              nil,
		"10.0.0.*:5000":              nil,
		"[::1]:5000":                 nil,
		"*:5000":                     nil,
		"docker.io":                  nil,
		"docker.io/library/":         nil,
		"gcr.io":                     nil,
		"*.gcr.io":                   nil,
		"*.*.registry.io":            nil,
		"app*.k8s.io":                nil,
		"*-docker.pkg.dev":           nil,
		"*.svc.cluster.local":        nil,
		"*.local":                    nil,
		"123456789012.dkr.ecr.us-east-1.amazonaws.com": nil,
		"k8s.*.io": {"open-domain"},

		"https://harbor.example.com":           {"scheme: harbor.example.com"},
		"http://harbor.example.com:8080/team/": {"scheme: harbor.example.com:8080/team/"},
		"https://harbor.example.com/*":         {"scheme: harbor.example.com", "path-glob: harbor.example.com"},
		"https://index.docker.io/v1/":          {"scheme: docker.io", "api-path: docker.io"},
		"oci://Harbor.example.com":             {"scheme: harbor.example.com"},
		"https://":                             {"scheme", "no-host"},
		"registry.example.com/team ":           {"whitespace: registry.example.com/team"},
		"registry.example.com/a b":             {"whitespace: registry.example.com/a"},
		"registry.example.com\u00a0":           {"whitespace: registry.example.com"},
		"user@registry.example.com":            {"userinfo: registry.example.com"},
		"registry.example.com?q":               {"query: registry.example.com"},
		"registry.example.com/team/?":          {"query: registry.example.com/team/"},
		"registry.example.com#f":               {"query: registry.example.com"},
		"":                                     {"no-host"},
		"/team":                                {"no-host"},
		":5000":                                {"no-host"},
		".example.com":                         {"empty-label: *.example.com"},
		"registry.example.com.":                {"empty-label: registry.example.com"},
		"registry..example.com":                {"empty-label"},
		"nginx":                                {"dotless-host: docker.io/library/nginx"},
		"library/nginx":                        {"dotless-host: docker.io/library/nginx"},
		"harbor/team/app":                      {"dotless-host: docker.io/harbor/team/app"},
		"*":                                    {"bare-wildcard: " + registries},
		"*registry":                            {"bare-wildcard: " + registries},
		"local*":                               {"bare-wildcard: " + registries},
		"**.example.com":                       {"double-wildcard: *.example.com"},
		"*example.com":                         {"glued-wildcard: *.example.com"},
		"*-example.com":                        {"glued-wildcard"},
		"*my-registry.io/team/":                {"glued-wildcard: *.my-registry.io/team/"},
		"registry*.io":                         {"glued-wildcard"},
		"registry.*":                           {"open-domain"},
		"*.io":                                 {"open-domain"},
		"*.co.uk":                              {"open-domain"},
		"r-*.github.io:5000":                   {"open-domain"},
		"*.r.github.io":                        nil,
		"*.*":                                  {"open-domain"},
		"HARBOR.example.com":                   {"upper-case-host: harbor.example.com"},
		"Registry":                             {"upper-case-host"},
		"index.docker.io":                      {"docker-index-host: docker.io"},
		"index.docker.io/library/":             {"docker-index-host: docker.io/library/"},
		"index.docker.io/team":                 {"docker-index-host: docker.io/team"},
		"registry.example.com/a__b/":           nil,
		"registry.example.com/a--b/":           nil,
		"registry.example.com/a___b/":          {"unmatchable"},
		"registry.example.com/a-_b/":           {"unmatchable"},
		"index.docker.io/v1/":                  {"docker-index-host: docker.io", "api-path: docker.io"},
		"registry-1.docker.io":                 {"docker-hub-host: docker.io"},
		"*.docker.io":                          {"docker-hub-host: docker.io"},
		"hub.docker.com":                       {"docker-hub-host: docker.io"},
		"docker.com":                           {"docker-hub-host: docker.io"},
		"123456789.dkr.ecr.us-east-1.amazonaws.com": {"no-such-registry: *.dkr.ecr.us-east-1.amazonaws.com"},
		"*.dkr.ecr.amazonaws.com/team/":             {"no-such-registry: *.dkr.ecr.*.amazonaws.com/team/"},
		"https://*.azurecr.com":                     {"scheme: *.azurecr.com", "no-such-registry: *.azurecr.io"},
		"*.QUAY.io":                                 {"upper-case-host: *.quay.io", "no-such-registry: quay.io"},
		"quay.io:5000":                              {"no-such-registry: quay.io"},
		"[::1]":                                     {"ipv6-without-port"},
		"[::1]/team/":                               {"ipv6-without-port"},
		"registry.example.com:0":                    {"port-range"},
		"registry.example.com:65536":                {"port-range"},
		"registry.example.com:443":                  {"default-port: registry.example.com"},
		"registry.example.com:443/team/":            {"default-port: registry.example.com/team/"},
		"registry.example.com:":                     {"empty-port: registry.example.com"},
		"harbor.example.com/*":                      {"path-glob: harbor.example.com"},
		"harbor.example.com/team/*":                 {"path-glob: harbor.example.com/team/"},
		"harbor.example.com/team/**":                {"path-glob: harbor.example.com/team/"},
		"harbor.example.com/team-*":                 {"path-glob: harbor.example.com/team-"},
		"harbor.example.com/[ab]/":                  {"path-glob: harbor.example.com"},
		"harbor.example.com/*/app":                  {"path-glob: harbor.example.com"},
		"Harbor.example.com/*":                      {"upper-case-host: harbor.example.com", "path-glob: harbor.example.com"},
		"registry.example.com/app:v1":               {"tag-or-digest: registry.example.com/app"},
		"registry.example.com/app:*":                {"path-glob: registry.example.com/app", "tag-or-digest: registry.example.com/app"},
		"registry.example.com/app@sha256:abcdef":    {"tag-or-digest: registry.example.com/app"},
		"registry.example.com/app:V1@sha256:abcdef": {"tag-or-digest: registry.example.com/app"},
		"registry.example.com/Team/":                {"upper-case-path: registry.example.com/team/"},
		"registry.example.com/%61/":                 {"percent-escape: registry.example.com/a/"},
		"registry.example.com/a/#%61":               {"query: registry.example.com/a/"},
		"registry.example.com/a/?%61":               {"query: registry.example.com/a/"},
		"registry.example.com/v2/":                  {"api-path: registry.example.com"},
		"registry.example.com/v1":                   {"api-path: registry.example.com"},
		"registry.example.com/team":                 {"sibling-path: registry.example.com/team/"},
		"*.example.com/team":                        {"sibling-path: *.example.com/team/"},
		"docker.io/nginx":                           {"sibling-path: docker.io/nginx/"},
		"registry.example.com/":                     {"slash-only: registry.example.com"},
		"my_registry.example.com":                   {"unmatchable"},
		"<HOST>":                                    {"unmatchable"},
		"$HOST.example.com":                         {"unmatchable"},
		"<HOST>/*":                                  {"path-glob", "unmatchable"},
		"-registry.example.com":                     {"unmatchable"},
		"registry.example.com//team/":               {"unmatchable"},
		"registry.example.com/team..app/":           {"unmatchable"},
		"räksmörgås.example.com":                    {"unmatchable"},
		"[fe80::1%25eth0]:5000":                     {"unmatchable"},
		"registry.example.com:80:80":                {"go-version: " + ipv6},
		"::1":                                       {"go-version: " + ipv6},
		"registry[12].example.com":                  {"go-version: " + ipv6},
		"[a-z]":                                     {"go-version: " + ipv6},
		// Every kubelet rejects these patterns, so lint does not report them.
		"registry.example.com:port": nil,
		"registry.example.com:*":    nil,
		"a b.example.com":           nil,
		"registry.example.com/%zz":  nil,
	}
	for pattern, want := range tests {
		t.Run(pattern, func(t *testing.T) {
			var got []string
			for _, f := range lintPattern(pattern, false) {
				s := caseName(f)
				if f.Fix != drop {
					s += ": " + f.Fix
				}
				got = append(got, s)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q (-want +got):\n%s", pattern, diff)
			}
		})
	}
}

func TestLintPatternsWithTokens(t *testing.T) {
	got := briefFindings(lintPattern("*.*", true))
	if diff := cmp.Diff([]string{"open-domain-token matchImages[0]"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestLintPatternsBeside verifies the rules that compare a pattern with the other patterns of its
// provider.
func TestLintPatternsBeside(t *testing.T) {
	for name, patterns := range map[string][]string{
		"both ports":           {"registry.example.com:443", "registry.example.com"},
		"docker.io is there":   {"docker.io", "*.docker.io", "registry-1.docker.io"},
		"subdomains and above": {"gcr.io", "*.gcr.io"},
		"what was meant":       {"quay.io", "*.quay.io"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &config.Config{Providers: []config.Provider{lintProvider("example", patterns...)}}
			if got := briefFindings(Check(c)); patterns[0] == "docker.io" {
				if diff := cmp.Diff([]string{"shadowed-pattern matchImages[2]: remove the pattern"}, got); diff != "" {
					t.Error(diff)
				}
			} else if got != nil {
				t.Error(got)
			}
		})
	}
}

func TestLintMessages(t *testing.T) {
	for pattern, want := range map[string]string{
		"harbor.example.com/*":                  `"harbor.example.com/*" never matches, because globs do not work in paths, which are matched as prefixes`,
		"https://harbor.example.com":            `"https://harbor.example.com" never matches, because a pattern cannot have a scheme: "https:" is parsed as the host`,
		"user:open-sesame@registry.example.com": `"…@registry.example.com": the kubelet ignores the text before the @, including any credential`,
		"*.example.com/team":                    `"*.example.com/team" also matches a.example.com/team-other/app, because paths are matched as plain string prefixes; a trailing slash excludes that repository, but also excludes the image a.example.com/team`,
		"*example.com":                          `"*example.com" also matches evilexample.com, a domain that anyone can register`,
		"<HOST>":                                `"<HOST>" never matches, because a registry host cannot contain the label "<HOST>"`,
	} {
		fs := lintPattern(pattern, false)
		if len(fs) == 0 || fs[0].Message != want {
			t.Errorf("%q:\ngot  %+v\nwant %s", pattern, fs, want)
		}
	}
}

// randomPattern returns a random pattern of fragments that often cause mistakes.
func randomPattern(r *rand.Rand) string {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	var b strings.Builder
	b.WriteString(pick("", "", "", "", "", "https://", "u@"))
	for i := range 1 + r.IntN(3) {
		if i > 0 {
			b.WriteString(".")
		}
		b.WriteString(pick("a", "b", "*", "a*", "*b", "a*b", "ab", "", "A", "a-", "*-", "_", "localhost", "docker", "io", "index"))
	}
	b.WriteString(pick("", "", "", ":443", ":80", ":", ":0", ":99999"))
	b.WriteString(pick("", "", "", "/", "/a", "/a/", "/a-", "/ab", "/a/*", "/A", "/a:b", "/a//b", "/_", "/%61", "/v2/", "?q", " "))
	return b.String()
}

// testImages returns images that differ in whether the patterns of randomPattern match them.
func testImages() []string {
	var images []string
	labels := []string{"a", "b", "ab", "aab", "abb", "axb", "A", "a-b", "x-b", "x", "localhost", "docker", "io", "index"}
	var hosts []string
	for _, x := range labels {
		hosts = append(hosts, x)
		for _, y := range labels {
			hosts = append(hosts, x+"."+y)
		}
	}
	for _, h := range hosts {
		for _, port := range []string{"", ":443", ":80"} {
			for _, path := range []string{"a", "ab", "a/b", "a-b", "x", "b/v2/x", "v2/x"} {
				if repo, err := match.Repository(h + port + "/" + path); err == nil {
					images = append(images, repo)
				}
			}
		}
	}
	return images
}

// TestLintErrorsMatchImages verifies that lint reports an error for a pattern if and only if the
// pattern matches no image, and that a suggested pattern has no error.
func TestLintErrorsMatchImages(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	images := testImages()
	for range 3000 {
		s := randomPattern(r)
		pat, err := match.Parse(s)
		if err != nil {
			continue
		}
		dead := false
		for _, f := range lintPattern(s, false) {
			if f.Severity != finding.SeverityError {
				continue
			}
			dead = true
			if _, err := match.Parse(f.Fix); f.Fix == "" || err != nil {
				continue
			}
			for _, g := range lintPattern(f.Fix, false) {
				if g.Severity == finding.SeverityError {
					t.Errorf("%q: %s suggests %q, of which %s says: %s", s, caseName(f), f.Fix, caseName(g), g.Message)
				}
			}
		}
		for _, image := range images {
			if dead && pat.Match(image) {
				t.Fatalf("%q matches %s, but lint calls it an error", s, image)
			}
		}
		at := must.Get(location.Parse(s))(t)
		example := ""
		if imagename.IsMatchable(at) {
			example = commonImage(at, at)
		}
		if dead != (example == "") {
			t.Errorf("%q: dead %v, example %q", s, dead, example)
		}
		checkExample(t, example, pat, pat)
	}
}

// checkExample checks that an example is the normalized name of an image and that both
// patterns match it.
func checkExample(t *testing.T, example string, a, b match.Pattern) {
	t.Helper()
	if example == "" {
		return
	}
	if repo, err := match.Repository(example); err != nil || repo != example && "docker.io/library"+strings.TrimPrefix(example, "docker.io") != repo {
		t.Errorf("%s: repository %q, %v", example, repo, err)
	} else if !a.Match(repo) || !b.Match(repo) {
		t.Errorf("%s: %q matches: %v, %q matches: %v", example, a, a.Match(repo), b, b.Match(repo))
	}
}

// TestLintPairsMatchImages verifies commonImage and covers by matching pairs of patterns against
// all images of testImages.
func TestLintPairsMatchImages(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	images := testImages()
	overlaps, covered := 0, 0
	for range 80000 {
		sa, sb := randomPattern(r), randomPattern(r)
		a, errA := match.Parse(sa)
		b, errB := match.Parse(sb)
		if errA != nil || errB != nil {
			continue
		}
		atA, _ := location.Parse(sa)
		atB, _ := location.Parse(sb)
		if !imagename.IsMatchable(atA) || !imagename.IsMatchable(atB) {
			continue
		}
		example := commonImage(atA, atB)
		checkExample(t, example, a, b)
		if example != "" {
			overlaps++
		}
		patternA, _ := location.ParsePattern(sa)
		patternB, _ := location.ParsePattern(sb)
		cover := coversPattern(comparablePattern{Pattern: patternA}, comparablePattern{Pattern: patternB})
		if cover {
			covered++
		}
		if example != "" && !cover {
			continue
		}
		for _, image := range images {
			if example == "" && a.Match(image) && b.Match(image) {
				t.Fatalf("%q and %q both match %s, but do not overlap", sa, sb, image)
			}
			if cover && b.Match(image) && !a.Match(image) {
				t.Fatalf("%q covers %q, but does not match %s", sa, sb, image)
			}
		}
	}
	if overlaps < 80 || covered < 30 {
		t.Errorf("%d overlaps, %d covers: too few to mean anything", overlaps, covered)
	}
}

func TestCommonLabel(t *testing.T) {
	for _, tt := range []struct{ a, b, want string }{
		{"*", "*", "a"}, {"a*", "*b", "ab"}, {"*a", "a", "a"}, {"a", "b", ""}, {"a*b*c", "*x*", "axbc"}, {"ab*", "a*b", "ab"},
		{"*-", "*", ""}, {"-*", "*", ""}, {"*-*", "*", "a-a"}, {"eu*", "*west", "euwest"}, {"a*a", "a", ""}, {"*_*", "*", ""},
		{strings.Repeat("*", 200), strings.Repeat("*a", 100), strings.Repeat("a", 100)}, {"", "*", ""},
		{"us-*", "*-docker", "us-docker"}, {"a*b*c", "a*b*c", "abc"}, {"ab*", "ac*", ""}, {"*ab", "*cb", ""},
	} {
		for _, p := range [][2]string{{tt.a, tt.b}, {tt.b, tt.a}} {
			got := ""
			if imagename.IsValidLabel(p[0]) && imagename.IsValidLabel(p[1]) {
				got = commonLabel(p[0], p[1], "")
			}
			if got != tt.want && (len(got) != len(tt.want) || got == "") {
				t.Errorf("commonLabel(%q, %q) = %q, want %q", p[0], p[1], got, tt.want)
			}
		}
	}
}

// TestCommonLabelIsExact verifies commonLabel by matching pairs of globs against all short labels.
func TestCommonLabelIsExact(t *testing.T) {
	all := func(alphabet string, most int) (all []string) {
		last := []string{""}
		for range most {
			var next []string
			for _, s := range last {
				for _, c := range alphabet {
					next = append(next, s+string(c))
				}
			}
			all, last = append(all, next...), next
		}
		return all
	}
	labels := slices.DeleteFunc(all("ab-", 7), func(s string) bool { return !imagename.IsValidLabel(s) })
	globs := slices.DeleteFunc(all("ab-*", 4), func(s string) bool { return !imagename.IsValidLabel(s) })
	matched := make([]map[string]bool, len(globs))
	for i, glob := range globs {
		matched[i] = map[string]bool{}
		for _, label := range labels {
			if location.MatchLabel(glob, label) {
				matched[i][label] = true
			}
		}
	}
	for i, a := range globs {
		for j, b := range globs {
			got, any := commonLabel(a, b, ""), false
			for label := range matched[i] {
				if any = matched[j][label]; any {
					break
				}
			}
			if any != (got != "") {
				t.Errorf("%q and %q: got %q, but whether they meet is %v", a, b, got, any)
			}
			if got != "" && !(imagename.IsValidLabel(got) && location.MatchLabel(a, got) && location.MatchLabel(b, got)) {
				t.Errorf("%q and %q: got %q", a, b, got)
			}
		}
	}
}

func FuzzLintPattern(f *testing.F) {
	for _, s := range []string{
		"", "/", "a", "a/b", "a.b:80/c", "a.b:", ":80", "a:80:80", "::1", "[::1]", "[::1]:5000/x", "[::1", "a].io:80/x", "[fe80::1%25eth0]/x", "[1.2.3.4]",
		"user@a.b/c", "u%zz@a", "a.b?q#f", "a#%zz", "a/%41", "a/%4", "a%41b/c", "a b/c", "a/b c", "A.io", "\x7f", "a/\xff", "é.io/x", "a..b", ".a", "a.",
		"*.io", "**.io", "a*b*c.io", "reg[ab].io", "a!$&'()*+,;=~_-", "https://a.b/c", "[]", "[*]",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		pat, err := match.Parse(s)
		parsed, _ := location.Parse(s)
		dead := false
		for _, f := range lintPattern(s, true) {
			dead = dead || f.Severity == finding.SeverityError
		}
		if err == nil && dead == imagename.IsMatchable(parsed) {
			t.Errorf("%q: dead %v", s, dead)
		}
		if err == nil && !dead {
			checkExample(t, commonImage(parsed, parsed), pat, pat)
		}
	})
}
