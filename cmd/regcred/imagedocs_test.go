// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"encoding/json"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/must"
)

// imageExample is the field case whose output is the transcript in docs/cli/doctor.md.
const imageExample = "testdata/docs/doctor-image.txtar"

// outputNormalizations lists the replacements for text that differs between machines.
var outputNormalizations = []struct {
	look *regexp.Regexp
	put  string
}{
	{regexp.MustCompile(`\((nameserver \S+ of )?/etc/(resolv.conf|hosts:\d+)\)`), "(WHERE)"},
	{regexp.MustCompile(`\d+\.\d+\.\d+\.\d+`), "ADDRESS"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\dZ`), "TIME"},
	{regexp.MustCompile(`expired \S+( days)? ago`), "expired AGO"},
	{regexp.MustCompile(`sha256:\S+`), "DIGEST"},
	{regexp.MustCompile(`verified by .*`), "verified by STORE"},
	{regexp.MustCompile(`service "\w+"`), "SERVICE"},
	{regexp.MustCompile(`CN=Example (CA|Root)`), "AUTHORITY"},
	{regexp.MustCompile(`"good"|good matches|"example"|example matches`), "PROVIDER"},
}

// imageLines returns the lines of a transcript about an image.
func imageLines(t *testing.T, text string) []string {
	t.Helper()
	_, text, found := strings.Cut(text, "ok      reference: ")
	text, _, ended := strings.Cut(text, "\n\n")
	if !ended {
		text, _, ended = strings.Cut(text, "\n```")
	}
	if !found || !ended {
		t.Fatalf("no way of an image in\n%s", text)
	}
	for _, g := range outputNormalizations {
		text = g.look.ReplaceAllString(text, g.put)
	}
	return strings.Split(strings.TrimRight(text, "\n"), "\n")
}

// TestDocsDoctorChecks checks that docs/cli/doctor.md lists all checks.
func TestDocsDoctorChecks(t *testing.T) {
	_, section, _ := strings.Cut(readPage(t, "doctor.md"), "\n## Checks\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+) \\|").FindAllStringSubmatch(section, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			listed = append(listed, strings.Trim(name, "`"))
		}
	}
	want := doctor.Checks()
	slices.Sort(listed)
	slices.Sort(want)
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("docs/cli/doctor.md: -want +got\n%s", diff)
	}
}

// TestDocsImage runs the example of "regcred doctor --image" and compares its output with the
// document.
func TestDocsImage(t *testing.T) {
	c := must.Get(readFieldCase(imageExample))(t)
	_, example, _ := strings.Cut(readPage(t, "doctor.md"), "--image registry.example/team/app:1.2\n")
	example, _, _ = strings.Cut(example, "```")
	if diff := cmp.Diff(imageLines(t, example+"\n\n"), imageLines(t, c.runCase(t))); diff != "" {
		t.Errorf("docs/cli/doctor.md: -docs +regcred\n%s", diff)
	}
}

// TestDocsImageJSON checks that the JSON example in docs/cli/doctor.md has only existing fields,
// and that all fields are documented.
func TestDocsImageJSON(t *testing.T) {
	data := must.Get(os.ReadFile(imageExample))(t)
	file := writeTemp(t, strings.Replace(string(data), "\nrun: regcred doctor", "\nrun: regcred doctor -o json", 1))
	c := must.Get(readFieldCase(file))(t)
	_, example, _ := strings.Cut(readPage(t, "doctor.md"), "```json\n\"image\": ")
	example, _, _ = strings.Cut(example, "```")
	dec := json.NewDecoder(strings.NewReader(example))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&doctor.ImageResult{}); err != nil {
		t.Errorf("docs/cli/doctor.md: %v", err)
	}
	var got struct{ Image json.RawMessage }
	must.Do(t, json.Unmarshal([]byte(c.runCase(t)), &got))
	var have, want any
	json.Unmarshal(got.Image, &have)
	json.Unmarshal([]byte(example), &want)
	written := fieldsOf("image", have)
	for name := range fieldsOf("image", want) {
		if !written[name] {
			t.Errorf("docs/cli/doctor.md has %s, which is not written", name)
		}
	}
	docs := readDocs(t)
	for name := range written {
		if name = path.Ext(name)[1:]; !strings.Contains(docs, `"`+name+`"`) && !strings.Contains(docs, "`"+name+"`") {
			t.Errorf("docs/cli does not name the field %q of image", name)
		}
	}
}

// fieldsOf returns the names of all fields of a document, for example image.hosts.url.
func fieldsOf(name string, doc any) map[string]bool {
	all := map[string]bool{}
	add := func(name string, doc any) {
		for field := range fieldsOf(name, doc) {
			all[field] = true
		}
	}
	switch doc := doc.(type) {
	case []any:
		for _, element := range doc {
			add(name, element)
		}
	case map[string]any:
		for field, value := range doc {
			all[name+"."+field] = true
			add(name+"."+field, value)
		}
	}
	return all
}
