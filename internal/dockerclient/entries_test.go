// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerclient

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
)

// editCases maps config files as docker, podman and users write them to the result of adding entries for a.example
// and b.example:5000.
var editCases = map[string]struct{ old, new string }{
	"docker's": {
		"{\n\t\"auths\": {\n\t\t\"x.example\": {\n\t\t\t\"auth\": \"dTpw\"\n\t\t}\n\t},\n\t\"currentContext\": \"east\"\n}",
		"{\n\t\"credHelpers\": {\n\t\t\"a.example\": \"regcred\",\n\t\t\"b.example:5000\": \"regcred\"\n\t},\n\t\"auths\": {\n\t\t\"x.example\": {\n\t\t\t\"auth\": \"dTpw\"\n\t\t}\n\t},\n\t\"currentContext\": \"east\"\n}",
	},
	"with helpers": {
		"{\n  \"credHelpers\": {\n    \"z.example\": \"pass\"\n  }\n}\n",
		"{\n  \"credHelpers\": {\n    \"a.example\": \"regcred\",\n    \"b.example:5000\": \"regcred\",\n    \"z.example\": \"pass\"\n  }\n}\n",
	},
	"CRLF": {
		"{\r\n  \"auths\": {}\r\n}\r\n",
		"{\r\n  \"credHelpers\": {\r\n    \"a.example\": \"regcred\",\r\n    \"b.example:5000\": \"regcred\"\r\n  },\r\n  \"auths\": {}\r\n}\r\n",
	},
	"one line": {
		`{"auths":{"x.example":{"auth":"dTpw"}},"n":1.000000000000000000001}`,
		`{"credHelpers":{ "a.example":"regcred", "b.example:5000":"regcred"},"auths":{"x.example":{"auth":"dTpw"}},"n":1.000000000000000000001}`,
	},
	"one line with helpers": {
		`{"credHelpers":{"z.example":"pass"}}`,
		`{"credHelpers":{"a.example":"regcred","b.example:5000":"regcred","z.example":"pass"}}`,
	},
	"empty": {
		`{}`,
		"{\"credHelpers\": {\n\t\t\"a.example\": \"regcred\",\n\t\t\"b.example:5000\": \"regcred\"\n\t}}",
	},
	"no helpers": {
		"{\n\t\"credHelpers\": {},\n\t\"auths\": {}\n}",
		"{\n\t\"credHelpers\": {\"a.example\": \"regcred\", \"b.example:5000\": \"regcred\"},\n\t\"auths\": {}\n}",
	},
	"another case, members twice, escapes": {
		`{ "x": 1, "x": {"x": "\ud800"}, "cREDhelpers" : { } , "" : "}\"," }`,
		`{ "x": 1, "x": {"x": "\ud800"}, "cREDhelpers" : {"a.example": "regcred", "b.example:5000": "regcred" } , "" : "}\"," }`,
	},
}

var desiredEntries = DesiredEntries{Hosts: []string{"a.example", "b.example:5000"}}

func TestPut(t *testing.T) {
	for name, tt := range editCases {
		t.Run(name, func(t *testing.T) {
			got := must.Get(PutEntries([]byte(tt.old), desiredEntries))(t)
			if diff := cmp.Diff(tt.new, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			putAndRemove(t, []byte(tt.old), desiredEntries)
			putAndRemove(t, []byte(tt.old), DesiredEntries{Hosts: desiredEntries.Hosts[:1]})
		})
	}
}

// putAndRemove verifies that PutEntries can be repeated after other changes, and that RemoveEntries
// restores the file.
func putAndRemove(t *testing.T, old []byte, w DesiredEntries) {
	t.Helper()
	clean, err := RemoveEntries(old)
	if err != nil {
		return
	}
	put, err := PutEntries(old, w)
	if err != nil {
		return // disk full
	}
	if !json.Valid(put) {
		t.Fatalf("%q became %q", old, put)
	}
	if other, err := PutEntries(put, DesiredEntries{Hosts: []string{"other.example"}, Others: ConflictKeep}); err != nil {
		t.Errorf("%q: %v", put, err)
	} else if again, err := PutEntries(other, w); err != nil || !bytes.Equal(again, put) {
		t.Errorf("%q became %q, and the second time, after %q, %q (%v)", old, put, other, again, err)
	}
	if got, err := RemoveEntries(put); err != nil || !bytes.Equal(got, clean) || (got == nil) != (clean == nil) {
		t.Errorf("%q became %q, and without it %q (%v)", clean, put, got, err)
	}
	e, err := ReadEntries(put)
	if err != nil || !cmp.Equal(e.Hosts, w.Hosts) || (e.Store == HelperName) != w.AllHosts {
		t.Errorf("%q: got %+v (%v), want %+v", put, e, err, w)
	}
	checkOthersUnchanged(t, clean, put)
}

// checkOthersUnchanged checks that all members except the helpers are unchanged, byte for byte.
func checkOthersUnchanged(t *testing.T, old, new []byte) {
	t.Helper()
	if old == nil {
		return
	}
	list := func(data []byte) (texts []string) {
		d, err := parseDocument(data)
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		members, _ := d.parseMembers()
		for _, m := range members {
			if !isFieldNamed(m, credHelpersField) && !isFieldNamed(m, credsStoreField) {
				texts = append(texts, string(d.jsonObject[m.Start:m.End]))
			}
		}
		return texts
	}
	if diff := cmp.Diff(list(old), list(new)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

// TestPutCreates verifies that RemoveEntries removes a file that PutEntries created, but keeps a
// file with the same members that another program wrote.
func TestPutCreates(t *testing.T) {
	for _, w := range []DesiredEntries{desiredEntries, {AllHosts: true}, {Hosts: desiredEntries.Hosts, AllHosts: true}} {
		putAndRemove(t, nil, w)
		data, err := PutEntries(nil, w)
		if err != nil || len(data) == 0 {
			t.Fatalf("%+v: got %q (%v)", w, data, err)
		}
		if left, err := RemoveEntries(bytes.TrimSpace(data)); err != nil || left == nil {
			t.Errorf("%q: got %q (%v), want what is left of it", data, left, err)
		}
	}
	if data, err := PutEntries(nil, DesiredEntries{}); data != nil || err != nil {
		t.Errorf("nothing wanted: got %q (%v)", data, err)
	}
}

// TestRemoveAfterOthers verifies that RemoveEntries keeps the changes of other programs.
func TestRemoveAfterOthers(t *testing.T) {
	for old, want := range map[string]string{
		`{"credHelpers": {"a": "regcred", "z": "pass"}, "auths": {}}`: `{"credHelpers": { "z": "pass"}, "auths": {}}`,
		`{"credHelpers": {"z": "pass", "a": "regcred"}}`:              `{"credHelpers": {"z": "pass"}}`,
		"{\"auths\": {}, \"credHelpers\": {\n\"a\": \"regcred\"\n}}":  `{"auths": {}}`,
		`{"credsStore": "regcred", "auths": {}}`:                      `{ "auths": {}}`,
		`{"credsStore": "pass", "credHelpers": {"a": "pass"}}`:        `{"credsStore": "pass", "credHelpers": {"a": "pass"}}`,
	} {
		if got, err := RemoveEntries([]byte(old)); err != nil || string(got) != want {
			t.Errorf("%s: got %s (%v), want %s", old, got, err, want)
		}
	}
}

func TestPutOthers(t *testing.T) {
	const old = `{"credHelpers": {"a.example": "ecr-login", "z.example": "pass"}}`
	for others, want := range map[ConflictPolicy]string{
		"":              "another helper is configured for a.example (\"ecr-login\")",
		ConflictKeep:    `{"credHelpers": {"b.example:5000": "regcred","a.example": "ecr-login", "z.example": "pass"}}`,
		ConflictReplace: `{"credHelpers": { "a.example": "regcred", "b.example:5000": "regcred", "z.example": "pass"}}`,
	} {
		w := desiredEntries
		w.Others = others
		got, err := PutEntries([]byte(old), w)
		if err != nil {
			got = []byte(err.Error())
		}
		if string(got) != want {
			t.Errorf("%q: got %s\nwant %s", others, got, want)
		}
	}
}

func TestPutAllHosts(t *testing.T) {
	all := DesiredEntries{AllHosts: true}
	for old, want := range map[string]string{
		`{"auths": {"x.example": {}}}`:                  `{"credsStore": "regcred","auths": {"x.example": {}}}`,
		`{"auths": {"x.example": {"auth": "dTpw"}}}`:    "docker would no longer find its credentials for x.example: a credsStore replaces auths",
		`{"credsStore": "pass"}`:                        `credsStore is already set to "pass"`,
		`{"credsStore": ""}`:                            `credsStore is already set to ""`,
		`{"credsStore": "regcred", "psFormat": "x"}`:    `{ "credsStore": "regcred", "psFormat": "x"}`,
		`{"psFormat": "x", "auths": {"x": {"auth":1}}}`: "",
	} {
		got, err := PutEntries([]byte(old), all)
		if err != nil {
			got = []byte(err.Error())
		}
		if want != "" && string(got) != want || want == "" && err == nil {
			t.Errorf("%s: got %s\nwant %s", old, got, want)
		}
		putAndRemove(t, []byte(old), all)
	}
}

func TestRefused(t *testing.T) {
	for data, want := range map[string]string{
		"":                             "the file is empty: remove it",
		" \n":                          "the file is empty: remove it",
		"\ufeff{}":                     "the file begins with a byte order mark, which clients cannot read: save the file without it",
		"{\n\"auths\": {\"p4ss\": x}":  "line 2: invalid JSON",
		"{\n\n":                        "line 3: invalid JSON",
		"{} {}":                        "line 1: invalid JSON",
		"[]":                           "not a JSON object",
		"null":                         "not a JSON object",
		`{"credHelpers": null}`:        "credHelpers must be an object: fix or remove it",
		`{"credHelpers": {"a": null}}`: `credHelpers: the entry for "a" must be a string`,
		`{"credHelpers": {"a": 1}}`:    `credHelpers: the entry for "a" must be a string`,
		`{"credHelpers": {"a": "x", "\u0061": "regcred"}}`:   `credHelpers contains "a" twice, and different clients treat duplicates differently: keep only one`,
		`{"credHelpers": {}, "CredHelpers": {}}`:             "credHelpers occurs 2 times, and different clients treat duplicates differently: keep only one",
		`{"credsStore": "a", "credsstore": "b"}`:             "credsStore occurs 2 times, and different clients treat duplicates differently: keep only one",
		`{"credsStore": 1}`:                                  "credsStore must be a string; docker cannot load the file otherwise",
		`{"a": ` + strings.Repeat("[", 100_000) + `1`:        "line 1: invalid JSON",
		"{\"a\":\n" + strings.Repeat("{\"a\":", 20_000) + "": "line 2: invalid JSON",
	} {
		for _, err := range []error{errorOnly(PutEntries([]byte(data), desiredEntries)), errorOnly(RemoveEntries([]byte(data))), errorOnly(ReadEntries([]byte(data)))} {
			if err == nil || err.Error() != want {
				t.Errorf("%.40q: got %v, want %s", data, err, want)
			}
		}
	}
}

func errorOnly[T any](_ T, err error) error { return err }

func FuzzPut(f *testing.F) {
	for _, tt := range editCases {
		f.Add([]byte(tt.old), "a.example", true)
		f.Add([]byte(tt.new), "\"", false)
	}
	f.Fuzz(func(t *testing.T, data []byte, host string, all bool) {
		if !json.Valid([]byte(quoteJSON(host))) {
			t.Fatalf("%q is written %s", host, quoteJSON(host))
		}
		host = strings.ToValidUTF8(host, "?") // as in the hosts of a configuration
		putAndRemove(t, data, DesiredEntries{Hosts: []string{host, host + "2"}, AllHosts: all})
	})
}
