// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
)

func TestMasked(t *testing.T) {
	env := "  env:\n  - {name: A, value: " + canary.EnvSecret + "}\n"
	tests := map[string]struct{ text, want string }{
		"lines": {
			head + "providers:\n- name: ecr\n" + lines + "  args:\n  - |\n    x\n\n    # " + canary.ArgSecret + "\n# end\n- name: acr\n" + lines + env,
			head + "providers:\n…\n" + strings.Repeat("  …\n", 6) + "    …\n\n    …\n# end\n…\n" + strings.Repeat("  …\n", 6),
		},
		"one in lines": {
			head + "providers:\n- name: ecr\n" + lines + "- name: acr\n" + lines + "  args: [" + canary.ArgSecret + "]\n# end\n- name: gcr\n" + lines,
			head + "providers:\n- name: ecr\n" + lines + "…\n  …\n  …\n  …\n  …\n  …\n# end\n- name: gcr\n" + lines,
		},
		"brackets": {
			head + "providers: [{name: ecr, " + fields + "}, {name: acr, " + fields + ",\r\n\targs: [" + canary.ArgSecret + "]}] # end",
			head + "providers: [{name: ecr, " + fields + "}, …\r\n\t…] # end",
		},
		"JSON": {
			strings.Replace(strings.Join(strings.Fields(pretty), ""), `"name":"ecr"`, `"name":"ecr","env":[{"name":"A","value":"`+canary.EnvSecret+`"}]`, 1),
			`{"apiVersion":"kubelet.config.k8s.io/v1","kind":"CredentialProviderConfig","providers":[…]}`,
		},
		"no configuration": {"a: [" + canary.ArgSecret + "\n\n  - " + canary.EnvSecret, "…\n\n  …"},
		"another encoding": {"\xff\xfe" + encodeUTF16(head+"providers: []\n"), "…\n…\n…\n…"},
		"nothing secret":   {pretty, pretty},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := string(MaskValues([]byte(tt.text)))
			canary.AssertAbsent(t, "what is shown", got)
			if strings.Count(got, "\n") != strings.Count(tt.text, "\n") {
				t.Errorf("%d lines became %d", strings.Count(tt.text, "\n"), strings.Count(got, "\n"))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if MaskValues(nil) != nil {
		t.Error("no file became one")
	}
}

// TestMaskedCorpus verifies that MaskValues hides secrets in every file of the corpus, before and
// after Set edits it.
func TestMaskedCorpus(t *testing.T) {
	seen := 0
	for name, text := range thirdPartyFiles {
		for _, change := range []func(string) string{
			func(s string) string { return strings.ReplaceAll(s, "text", canary.ArgSecret) },
			func(s string) string { return strings.ReplaceAll(s, "# not", "# "+canary.ArgSecret) },
			func(s string) string { return strings.ReplaceAll(s, "]}", ", args: ["+canary.ArgSecret+"]}") },
			func(s string) string {
				return strings.ReplaceAll(s, lines, lines+"  env: [{name: a, value: "+canary.EnvSecret+"}]\n")
			},
			func(s string) string {
				return strings.ReplaceAll(s, jsonFields, jsonFields+`, "args": ["`+canary.ArgSecret+`"]`)
			},
		} {
			before := []byte(change(text))
			after, err := SetEntries("f", before, plainEntries, nil)
			if err != nil || canary.FindMarker(string(before)) == "" {
				continue
			}
			seen++
			canary.AssertAbsent(t, name+", before", string(MaskValues(before)))
			canary.AssertAbsent(t, name+", after", string(MaskValues(after)))
		}
	}
	if seen < 30 {
		t.Errorf("only %d files had a secret", seen)
	}
}
