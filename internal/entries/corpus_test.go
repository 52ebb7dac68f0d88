// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import "strings"

const (
	head   = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n"
	fields = "matchImages: [a.example], defaultCacheDuration: 12h, apiVersion: credentialprovider.kubelet.k8s.io/v1"
	lines  = `  matchImages:
  - "*.a.example"
  defaultCacheDuration: 12h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
`
	jsonFields = `"matchImages": ["a.example"], "defaultCacheDuration": "12h", "apiVersion": "credentialprovider.kubelet.k8s.io/v1"`
	pretty     = `{
  "apiVersion": "kubelet.config.k8s.io/v1",
  "kind": "CredentialProviderConfig",
  "providers": [
    {
      "name": "ecr",
      "matchImages": [
        "*.a.example"
      ],
      "defaultCacheDuration": "12h",
      "apiVersion": "credentialprovider.kubelet.k8s.io/v1"
    }
  ]
}
`
)

// thirdPartyFiles lists files with third-party providers in unusual formatting.
var thirdPartyFiles = map[string]string{
	"lines":               head + "providers:\n- name: ecr\n" + lines,
	"two":                 head + "providers:\n- name: ecr\n" + lines + "- name: acr\n" + lines,
	"indented":            head + "providers:\n" + indentLines("- name: ecr\n"+lines, "    "),
	"first":               "providers:\n- name: ecr\n" + lines + head,
	"first and indented":  "providers:\n" + indentLines("- name: ecr\n"+lines, "  ") + head,
	"CRLF":                toCRLF(head + "providers:\n- name: ecr\n" + lines),
	"CRLF, two, first":    toCRLF("providers:\n- name: ecr\n" + lines + "- name: acr\n" + lines + "\n# end\n" + head),
	"BOM":                 "\ufeff" + head + "providers:\n- name: ecr\n" + lines,
	"BOM, brackets":       "\ufeffproviders: [{name: ecr, " + fields + "}]\n" + head,
	"no last newline":     strings.TrimSuffix(head+"providers:\n- name: ecr\n"+lines, "\n"),
	"no newline, CRLF":    strings.TrimSuffix(toCRLF(head+"providers:\n- name: ecr\n"+lines), "\r\n"),
	"comments":            "# before\n" + head + "# list\nproviders: # here\n  # first\n- name: ecr # the\n" + lines + "# - name: old\n#   x: y\n",
	"comments behind":     "providers:\n- name: ecr\n" + lines + "  # of the last\n\n# of the kind\n" + head + "# end",
	"comments between":    head + "providers:\n- name: ecr\n" + lines + "\n# acr\n\n- name: acr\n" + lines + "\n\n",
	"blanks at the end":   head + "providers:\n- name: ecr\n" + lines + "  \n\n   ",
	"dash alone":          head + "providers:\n-\n  name: ecr\n" + lines + "- # acr\n\n  name: acr\n" + lines,
	"wide dash":           head + "providers:\n-   name: ecr\n    " + strings.ReplaceAll(fields, ", ", "\n    ") + "\n",
	"item in brackets":    head + "providers:\n- {name: ecr, " + fields + "}\n- {name: acr,\n " + fields + "\n}\n",
	"text over lines":     head + "providers:\n- name: ecr\n" + lines + "  args:\n  - |+\n    # not a comment\n\n    text\n\n    # nor this\n\n",
	"text, then more":     "providers:\n- name: ecr\n" + lines + "  args:\n  - |+\n    # not a comment\n\n    # nor this\n\n" + head,
	"text to the end":     head + "providers:\n- name: ecr\n" + lines + "  args:\n  - |-\n    text\n    # not a comment",
	"folded":              head + "providers:\n- name: ecr\n" + lines + "  args:\n  - >-\n    a\n\n\n     b\n\n",
	"quoted over lines":   head + "providers:\n- name: ecr\n" + lines + "  args:\n  - \"text\n\n    # text\n    - name: x\"\n",
	"another document":    head + "providers:\n- name: ecr\n" + lines + "---\nproviders:\n- name: acr\n",
	"a mark":              "--- # begin\n" + head + "providers:\n- name: ecr\n" + lines + "...\n# end\n",
	"directive":           "%YAML 1.1\n---\n" + head + "providers:\n- name: ecr\n" + lines,
	"anchors":             head + "providers:\n- &a\n  name: ecr\n  matchImages: &m [a.example]\n  defaultCacheDuration: 12h\n  apiVersion: &v credentialprovider.kubelet.k8s.io/v1\n- name: acr\n  matchImages: *m\n  defaultCacheDuration: 12h\n  apiVersion: *v\n",
	"merged":              head + "providers:\n- &a\n  name: ecr\n" + lines,
	"list with an anchor": head + "providers: &list\n- name: ecr\n" + lines,
	"list with a tag":     head + "providers: !!seq\n- name: ecr\n" + lines,
	"quoted keys":         strings.NewReplacer("kind", `"kind"`, "providers", "'providers'").Replace(head + "providers:\n- 'name': \"ecr\"\n" + lines),
	"nothing":             head + "providers:\n",
	"nothing, first":      "providers: # none\n" + head,
	"nothing, indented":   "  providers:\n" + indentLines(head, "  "),
	"empty brackets":      head + "providers: []\n",
	"empty, with blanks":  head + "providers: [\n ] # none\n",
	"brackets":            head + "providers: [{name: ecr, " + fields + "}]\n",
	"brackets, commas":    head + "providers: [\n  {name: ecr, " + fields + "}, # ecr\n  {name: acr, " + fields + "} , # acr\n  ]\n",
	"brackets, anchor":    head + "providers: &p !!seq [{name: &n ecr, " + fields + "}]\n",
	"brackets, quotes":    head + "providers: [{name: ecr, " + fields + ", args: ['it''s ]', \"a\\\"]\", it's, http://x#y, 'a\n  b']}]\n",
	"brackets, signs":     head + "providers: [{name: ecr, " + fields + ", env: [{value: ']}', name: \"]\"}], args: [it's, '],', a:'b, http://x#y, \"],\", !!str ']', &x \"]\", *x, 'a', # ]\n ']']} # ]}\n, {name: acr, " + fields + "} ]\n",
	"compact with BOM":    "\ufeff" + strings.Join(strings.Fields(pretty), ""),
	"bracket on its line": "providers:\n  [\n{name: ecr, " + fields + "}]\n" + head,
	"all in brackets":     "# a comment\n{apiVersion: kubelet.config.k8s.io/v1, providers: [{name: ecr, " + fields + "}], kind: CredentialProviderConfig}\n",
	"beta":                strings.Replace(head, "/v1\n", "/v1beta1\n", 1) + "providers:\n- name: ecr\n" + lines,
	"alpha":               strings.Replace(pretty, ".io/v1\"", ".io/v1alpha1\"", 1),
	"pretty":              pretty,
	"pretty CRLF":         toCRLF(pretty),
	"tabs":                strings.ReplaceAll(pretty, "  ", "\t"),
	"four blanks":         strings.ReplaceAll(pretty, "  ", "    "),
	"compact":             strings.Join(strings.Fields(pretty), ""),
	"one line, blanks":    strings.Join(strings.Fields(pretty), " "),
	"JSON in YAML":        "---\n" + pretty,
	"JSON with BOM":       "\ufeff" + pretty,
	"hugging":             `{"kind": "CredentialProviderConfig", "providers": [{` + "\n    \"name\": \"ecr\", " + jsonFields + "\n  }, {\n    \"name\": \"acr\", " + jsonFields + "\n  }],\n  \"apiVersion\": \"kubelet.config.k8s.io/v1\"}",
	"an item a line":      "{\"apiVersion\": \"kubelet.config.k8s.io/v1\", \"kind\": \"CredentialProviderConfig\", \"providers\": [\n\t{\"name\": \"ecr\", " + jsonFields + "},\n\t{\"name\": \"acr\", " + jsonFields + "}\n]}",
	"JSON, empty":         `{"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": [ ]}`,
	"escapes":             `{"apiVersion": "kubelet.config.k8s.io\/v1", "kind": "CredentialProviderConfig", "pr\u006fviders" : [{"name": "ecr", "args": ["\ud83d\ude00 ]\\", "\"]", "{[", "it's"], ` + jsonFields + "}]}",
	"blanks around":       "\n\n " + pretty + "\n\n",
}

func toCRLF(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }

// indentLines indents each line of s with blanks.
func indentLines(s, blanks string) string {
	return blanks + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n"+blanks) + "\n"
}
