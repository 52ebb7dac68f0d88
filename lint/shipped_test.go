// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
)

// TestLintShippedConfigs verifies that the configurations that other projects ship have no errors
// and no warnings, except for known mistakes.
func TestLintShippedConfigs(t *testing.T) {
	mistakes := map[string][]string{
		// The hosts of ECR in China end in amazonaws.com.cn.
		"kubernetes-docs.yaml": {"no-such-registry matchImages[1]: *.dkr.ecr.*.amazonaws.com.cn"},
	}
	paths, err := filepath.Glob("testdata/shipped/*.yaml")
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d files: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			if data, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(data), "# https://") {
				t.Fatalf("it does not begin with its source: %v", err)
			}
			var loud []finding.Finding
			said := map[string]int{}
			for _, f := range findingsIn(t, path) {
				if said[caseName(f)]++; f.Severity != finding.SeverityInfo {
					loud = append(loud, f)
				}
			}
			if diff := cmp.Diff(mistakes[filepath.Base(path)], briefFindings(loud)); diff != "" {
				t.Error(diff)
			}
			if said["wildcard-ladder"] > 1 || said["open-domain"] > 0 && said["wildcard-ladder"] > 0 {
				t.Errorf("a ladder has several findings: %v", said)
			}
		})
	}
}

func TestLintWildcardLadder(t *testing.T) {
	ladder := []string{"*", "*.*", "*.*.*", "*.*.*.*"}
	const one = "wildcard-ladder matchImages[0]"
	for name, tt := range map[string]struct {
		patterns []string
		tokens   bool
		want     []string
	}{
		"whole":         {ladder, false, []string{one}},
		"beside others": {append([]string{"r.example.com"}, ladder...), false, []string{"wildcard-ladder matchImages[1]"}},
		"with tokens":   {ladder, true, []string{one, "open-domain-token matchImages[3]"}},
		"a rung alone":  {[]string{"*"}, false, []string{"bare-wildcard matchImages[0]: list the registries, using one * for each label"}},
		"no ladder":     {[]string{"*.*", "*.*.*:5000"}, false, []string{"open-domain matchImages[0]", "open-domain matchImages[1]", "overlapping-providers providers[1].matchImages[0]"}},
	} {
		p := lintProvider("example", tt.patterns...)
		if tt.tokens {
			p = lintTokens(p, nil)
		}
		other := lintProvider("other", "quay.io")
		c := &config.Config{Providers: []config.Provider{p, other}}
		if diff := cmp.Diff(tt.want, briefFindings(Check(c))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
