// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/must"
)

// plainEntries and token are regcred's entries in these tests. names lists the names of the entries in
// token.
var (
	plainEntries = []Entry{newEntry(1, nil, "*.a.example", "b.example:5000/t\"<e>a#m: ]")}
	tokenEntries = append(plainEntries, newEntry(2, &config.TokenAttributes{
		ServiceAccountTokenAudience: "aud: #1", CacheType: config.CachePerToken, RequireServiceAccount: new(true),
		RequiredServiceAccountAnnotationKeys: []string{"a/1", "b/2"}, OptionalServiceAccountAnnotationKeys: []string{"on"},
	}, "c.example"))
	entryNames = []string{NumberedName(1), NumberedName(2)}
)

// TestSet verifies for every file of the corpus that regcred's entries can be added and replaced
// without changing other entries. Removing them restores the file.
func TestSet(t *testing.T) {
	for name, text := range thirdPartyFiles {
		t.Run(name, func(t *testing.T) {
			ours := tokenEntries
			if strings.Contains(text, "/v1beta1") || strings.Contains(text, "/v1alpha1") {
				ours = plainEntries
			}
			checkSet(t, []byte(text), ours, true)
			checkSet(t, []byte(text), plainEntries, true)
		})
	}
}

// checkSet adds our entries to a file, replaces them and removes them. If must is false, Set may
// reject the file.
func checkSet(t *testing.T, data []byte, ours []Entry, must bool) {
	t.Helper()
	former := bytes.Clone(data)
	before, err := config.Parse("f", data)
	if err != nil {
		t.Fatal(err)
	}
	got, err := SetEntries("f", data, ours, nil)
	if err != nil {
		if must {
			t.Error(err)
		}
		return
	}
	after, err := config.Parse("f", got)
	if err != nil || !sameProviders(after.Providers, append(before.Providers[:len(before.Providers):len(before.Providers)], toProviders(ours)...)) {
		t.Fatalf("%v: it says something else:\n%s", err, got)
	}
	if again, err := SetEntries("f", got, ours, entryNames); err != nil || !bytes.Equal(again, got) {
		t.Errorf("again: %v\n%s", err, cmp.Diff(string(got), string(again)))
	}
	if fewer, err := SetEntries("f", got, ours[:1], entryNames); err != nil {
		t.Errorf("fewer: %v", err)
	} else if direct, err := SetEntries("f", data, ours[:1], nil); err != nil || !bytes.Equal(direct, fewer) {
		t.Errorf("fewer: %v\n%s", err, cmp.Diff(string(direct), string(fewer)))
	}
	if back, err := SetEntries("f", got, nil, entryNames); err != nil || !bytes.Equal(back, former) {
		t.Errorf("back: %v\n%s", err, cmp.Diff(string(former), string(back)))
	}
	if !bytes.Equal(data, former) {
		t.Error("the argument was changed")
	}
}

func FuzzSet(f *testing.F) {
	for _, text := range thirdPartyFiles {
		f.Add([]byte(text), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, tokens bool) {
		c, err := config.Parse("f", data)
		if err != nil || data == nil {
			return
		}
		for _, p := range c.Providers {
			if entryNumber(p.Name) > 0 {
				return
			}
		}
		if tokens {
			checkSet(t, data, tokenEntries, false)
		} else {
			checkSet(t, data, plainEntries, false)
		}
	})
}

// TestSetText verifies the exact text that Set writes.
func TestSetText(t *testing.T) {
	short := []Entry{newEntry(1, nil, "*.x"), newEntry(2, newTokenAttributes("y", "a/1"), "y")}
	tests := map[string]string{
		"comments": thirdPartyFiles["comments"][:strings.Index(thirdPartyFiles["comments"], "# - name: old")] + `- name: regcred-credential-provider
  matchImages:
  - "*.x"
  defaultCacheDuration: "0s"
  apiVersion: credentialprovider.kubelet.k8s.io/v1
- name: regcred-credential-provider-2
  matchImages:
  - "y"
  defaultCacheDuration: "0s"
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  tokenAttributes:
    serviceAccountTokenAudience: "y"
    cacheType: "ServiceAccount"
    requireServiceAccount: true
    requiredServiceAccountAnnotationKeys:
    - "a/1"
# - name: old
#   x: y
`,
		"pretty": strings.Replace(pretty, "    }\n  ]", `    },
    {
      "name": "regcred-credential-provider",
      "matchImages": [
        "*.x"
      ],
      "defaultCacheDuration": "0s",
      "apiVersion": "credentialprovider.kubelet.k8s.io/v1"
    },
    {
      "name": "regcred-credential-provider-2",
      "matchImages": [
        "y"
      ],
      "defaultCacheDuration": "0s",
      "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
      "tokenAttributes": {
        "serviceAccountTokenAudience": "y",
        "cacheType": "ServiceAccount",
        "requireServiceAccount": true,
        "requiredServiceAccountAnnotationKeys": [
          "a/1"
        ]
      }
    }
  ]`, 1),
	}
	item := `- name: regcred-credential-provider
  matchImages:
  - "*.x"
  defaultCacheDuration: "0s"
  apiVersion: credentialprovider.kubelet.k8s.io/v1
`
	_, rest, _ := strings.Cut(tests["comments"], item)
	rest, _, _ = strings.Cut(rest, "# - name")
	tests["lines"] = thirdPartyFiles["lines"] + item + rest
	tests["CRLF"] = toCRLF(tests["lines"])
	tests["no last newline"] = strings.TrimSuffix(tests["lines"], "\n")
	tests["indented"] = thirdPartyFiles["indented"] + indentLines(item+rest, "    ")
	tests["nothing, indented"] = strings.Replace(thirdPartyFiles["nothing, indented"], "providers:\n", "providers:\n"+indentLines(item+rest, "  "), 1)
	tests["pretty CRLF"] = toCRLF(tests["pretty"])
	tests["tabs"] = strings.ReplaceAll(tests["pretty"], "  ", "\t")
	tests["compact"] = strings.Join(strings.Fields(tests["pretty"]), "")
	first := `{"name":"regcred-credential-provider","matchImages":["*.x"],"defaultCacheDuration":"0s","apiVersion":"credentialprovider.kubelet.k8s.io/v1"}`
	second := `{"name":"regcred-credential-provider-2","matchImages":["y"],"defaultCacheDuration":"0s","apiVersion":"credentialprovider.kubelet.k8s.io/v1",` +
		`"tokenAttributes":{"serviceAccountTokenAudience":"y","cacheType":"ServiceAccount","requireServiceAccount":true,"requiredServiceAccountAnnotationKeys":["a/1"]}}`
	tests["an item a line"] = strings.Replace(thirdPartyFiles["an item a line"], "\n]", ",\n\t"+first+",\n\t"+second+"\n]", 1)
	tests["empty brackets"] = head + "providers: [" + first + ", " + second + "]\n"
	_, rest, _ = strings.Cut(tests["pretty"], "    },\n")
	rest, _, _ = strings.Cut(rest, "\n  ]")
	rest = strings.ReplaceAll(strings.TrimPrefix(rest, "    "), "\n  ", "\n")
	tests["hugging"] = strings.Replace(thirdPartyFiles["hugging"], "}],", "}, "+strings.Replace(rest, "},\n  {", "}, {", 1)+"],", 1)
	for name, want := range tests {
		got, err := SetEntries("f", []byte(thirdPartyFiles[name]), short, nil)
		if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// TestSetCreated verifies that Set creates a missing file, and that removing all entries from such
// a file deletes it.
func TestSetCreated(t *testing.T) {
	data := must.Get(SetEntries("f", nil, tokenEntries, nil))(t)
	c, err := config.Parse("f", data)
	if err != nil || !sameProviders(c.Providers, toProviders(tokenEntries)) || c.Validate() != nil {
		t.Errorf("%v, %v:\n%s", err, c.Validate(), data)
	}
	fewer, err := SetEntries("f", data, plainEntries, entryNames)
	if want, _ := SetEntries("f", nil, plainEntries, nil); err != nil || !bytes.Equal(fewer, want) {
		t.Errorf("%v\n%s", err, fewer)
	}
	for _, given := range [][]byte{nil, data, fewer} {
		if got, err := SetEntries("f", given, nil, entryNames); err != nil || got != nil {
			t.Errorf("%v, %q is left", err, got)
		}
	}
	if got, err := SetEntries("f", []byte(head+"providers: []\n"), nil, entryNames); err != nil || string(got) != head+"providers: []\n" {
		t.Errorf("%v, %q: a file of others is theirs", err, got)
	}
}

// TestSetKeepsConcurrentChanges verifies that replacing or removing our entries keeps changes that
// another program has made since they were added.
func TestSetKeepsConcurrentChanges(t *testing.T) {
	theirs := map[string]func(installed string) (changed, want string){
		"another behind": func(s string) (string, string) {
			return s + "- name: new\n" + lines, thirdPartyFiles["lines"] + "- name: new\n" + lines
		},
		"another before": func(s string) (string, string) {
			return strings.Replace(s, "- name: ecr", "- name: new\n"+lines+"- name: ecr", 1),
				strings.Replace(thirdPartyFiles["lines"], "- name: ecr", "- name: new\n"+lines+"- name: ecr", 1)
		},
		"comments": func(s string) (string, string) {
			return strings.Replace(s, "- name: regcred", "# theirs\n\n- name: regcred", 1) + "# end\n", thirdPartyFiles["lines"] + "# theirs\n\n# end\n"
		},
		"all others gone": func(s string) (string, string) {
			return strings.Replace(s, "- name: ecr\n"+lines, "", 1), head + "providers:\n"
		},
		"rewritten in brackets": func(s string) (string, string) {
			other := "{name: ecr, " + fields + "}"
			return head + "providers: [ {name: regcred-credential-provider, " + fields + "}, # a\n " + other + ", # b\n {name: regcred-credential-provider-2, " + fields + "} ]",
				head + "providers: [  # a\n " + other + ", # b\n  ]"
		},
		"rewritten in JSON": func(s string) (string, string) {
			c, _ := config.Parse("f", []byte(s))
			return string(newFileText([]Entry{{Name: "regcred-credential-provider", APIVersion: "credentialprovider.kubelet.k8s.io/v1", MatchImages: c.Providers[1].MatchImages}, {Name: "ecr", APIVersion: "v", MatchImages: []string{"r.example"}}})),
				"{\n  \"apiVersion\": \"kubelet.config.k8s.io/v1\",\n  \"kind\": \"CredentialProviderConfig\",\n  \"providers\": [\n    {\n      \"name\": \"ecr\",\n      \"matchImages\": [\n        \"r.example\"\n      ],\n      \"defaultCacheDuration\": \"0s\",\n      \"apiVersion\": \"v\"\n    }\n  ]\n}\n"
		},
	}
	installed := must.Get(SetEntries("f", []byte(thirdPartyFiles["lines"]), tokenEntries, nil))(t)
	for name, change := range theirs {
		t.Run(name, func(t *testing.T) {
			changed, want := change(string(installed))
			if got, err := SetEntries("f", []byte(changed), nil, entryNames); err != nil || string(got) != want {
				t.Errorf("%v (-want +got):\n%s", err, cmp.Diff(want, string(got)))
			}
			got, err := SetEntries("f", []byte(changed), plainEntries, entryNames)
			c, err2 := config.Parse("f", got)
			if err != nil || err2 != nil || c.Providers[len(c.Providers)-1].Name != DispatcherName {
				t.Errorf("%v, %v: ours are not the last:\n%s", err, err2, got)
			}
		})
	}
}

func TestSetRefuses(t *testing.T) {
	hand := `append to the providers list manually: {"name":"regcred-credential-provider","matchImages":["*.a.example",`
	tests := map[string]struct {
		text string
		want []string
	}{
		"beta":                           {thirdPartyFiles["beta"], []string{"f:1:13: apiVersion: version kubelet.config.k8s.io/v1", `"regcred-credential-provider-2"`}},
		"alpha":                          {thirdPartyFiles["alpha"], []string{"f:2:17: apiVersion: version"}},
		"empty":                          {"", []string{"f: is empty"}},
		"comments alone":                 {"# x\n", []string{"f: is empty"}},
		"no YAML":                        {"a: [", []string{"f:", "not valid YAML"}},
		"twice":                          {head + "kind: CredentialProviderConfig\nproviders: []\n", []string{"f:3:1: kind: a field is set twice"}},
		"another kind":                   {"kind: Pod\napiVersion: v1\n", []string{"f:1:7: kind: unsupported kind"}},
		"predecessor":                    {"kind: RegistryCredentialConfig\napiVersion: v1alpha1\nproviders: []\n", []string{"f:1:7: kind: the kubelet does not support this kind, so nothing was changed"}},
		"our name":                       {head + "providers:\n- name: regcred-credential-provider-3\n" + lines, []string{"f:4:9: providers[0].name: nothing was changed, because this entry"}},
		"missing":                        {head, []string{"f:1:1: cannot append to a list formatted like this", hand}},
		"null":                           {head + "providers: null\n", []string{"f:3:12: cannot append to a list formatted like this", hand}},
		"null in JSON":                   {`{"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": null}`, []string{"cannot append to a list", hand}},
		"an alias":                       {head + "providers: *p\n", []string{"f:"}},
		"a text that ends with the file": {thirdPartyFiles["lines"] + "  args:\n  - |\n    text", []string{"cannot append to a list", hand}},
		"ours in UTF-16":                 {"\xff\xfe" + encodeUTF16(thirdPartyFiles["lines"]+"- name: regcred-credential-provider\n"+lines), []string{"f:9:3: cannot remove the entry from a file formatted like this", `"regcred-credential-provider" manually`}},
		"an explicit key":                {head + "? providers\n: - name: ecr\n  " + strings.ReplaceAll(lines, "\n  ", "\n    "), []string{"f:4:3: cannot append to a list formatted like this", hand}},
		"merged in":                      {"<<: {" + strings.ReplaceAll(strings.TrimSpace(head), "\n", ", ") + ", providers: []}\n", []string{"cannot append to a list", hand}},
		"null in brackets":               {"--- {" + strings.ReplaceAll(strings.TrimSpace(head), "\n", ", ") + ", providers: }\n", []string{"cannot append to a list", hand}},
		"UTF-16":                         {"\xff\xfe" + encodeUTF16(thirdPartyFiles["lines"]), []string{"cannot append to a list", hand}},
		"carriage returns alone":         {strings.ReplaceAll(thirdPartyFiles["lines"], "\n", "\r"), []string{"cannot append to a list", hand}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := SetEntries("f", []byte(tt.text), tokenEntries, entryNames)
			if err == nil || got != nil {
				t.Fatalf("not refused:\n%s", got)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("got %v, want %q", err, want)
				}
			}
			if _, ok := errors.AsType[*config.FieldError](err); !ok && !strings.Contains(err.Error(), "nothing was changed") {
				t.Errorf("%v: it does not say that nothing was changed", err)
			}
		})
	}
}

// encodeUTF16 encodes a text as UTF-16 without a byte order mark.
func encodeUTF16(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		b.Write([]byte{c, 0})
	}
	return b.String()
}

// TestHas verifies that HasEntries finds exactly regcred's entries, wherever other entries are.
func TestHas(t *testing.T) {
	foreign := newEntry(7, nil, "x.example")
	foreign.Name = "foreign"
	for _, tt := range []struct {
		name string
		in   []Entry
		want bool
	}{
		{"alone", tokenEntries, true},
		{"others around", append(append([]Entry{foreign}, tokenEntries...), Entry{"last", foreign.APIVersion, foreign.MatchImages, nil}), true},
		{"one is missing", plainEntries, false},
		{"one more", append(tokenEntries[:2:2], newEntry(3, nil, "y.example")), false},
		{"changed", append(tokenEntries[:1:1], newEntry(2, nil, "c.example")), false},
		{"none", []Entry{foreign}, false},
	} {
		data := newFileText(tt.in)
		if got, err := HasEntries("f", data, tokenEntries, append(entryNames, NumberedName(3))); got != tt.want || err != nil {
			t.Errorf("%s: %v, %v", tt.name, got, err)
		}
	}
	if got, err := HasEntries("f", nil, nil, nil); !got || err != nil {
		t.Errorf("no file, no entries: %v, %v", got, err)
	}
	if _, err := HasEntries("f", []byte("{"), tokenEntries, entryNames); err == nil {
		t.Error("a file that no kubelet reads has them")
	}
}
