// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"fmt"
	"strings"
	"testing"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/lint/internal/rules"
)

const configHeader = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"

// manyProviders returns a valid configuration of n providers.
func manyProviders(n int) string {
	var b strings.Builder
	b.WriteString(configHeader)
	for i := range n {
		fmt.Fprintf(&b, "- name: p%d\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  defaultCacheDuration: 5m\n  matchImages: [r%d.example.com, '*.r%d.example.com']\n", i, i, i)
	}
	return b.String()
}

// manyFindings returns a configuration of one provider with n patterns that never match.
func manyFindings(n int) string {
	var b strings.Builder
	b.WriteString(configHeader + "- name: p\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  defaultCacheDuration: 5m\n  matchImages:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - r%d.example.com/*\n", i)
	}
	return b.String()
}

func checkText(t testing.TB, text string) []finding.Finding {
	t.Helper()
	c := must.Get(config.Parse("c.yaml", []byte(text)))(t)
	return Check(c)
}

// TestCheckScales verifies that allocations grow linearly with the size of the file, and that the
// number of findings per rule is limited.
func TestCheckScales(t *testing.T) {
	for name, text := range map[string]func(int) string{"providers": manyProviders, "findings": manyFindings} {
		one, two := text(500), text(1000)
		allocs := func(text string) float64 {
			return testing.AllocsPerRun(1, func() { checkText(t, text) })
		}
		if a, b := allocs(one), allocs(two); b > 2.2*a {
			t.Errorf("%s: %v allocations, %v for twice the text", name, a, b)
		}
	}
	if fs := checkText(t, manyFindings(2000)); len(fs) != rules.MaxResults+1 || !strings.Contains(fs[rules.MaxResults].Message, "1900 more findings") {
		t.Errorf("%d findings; the last: %v", len(fs), fs[len(fs)-1])
	}
}

func BenchmarkCheck(b *testing.B) {
	for name, text := range map[string]string{
		"1,000 providers": manyProviders(1000), "2,000 providers": manyProviders(2000),
		"10,000 findings": manyFindings(10_000), "20,000 findings": manyFindings(20_000),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				checkText(b, text)
			}
		})
	}
}
