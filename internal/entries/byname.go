// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import (
	"regexp"
	"slices"

	"github.com/regcred/regcred/internal/textedit"
)

// nameField matches the name of an entry in YAML or JSON, as regcred and common formatters write
// it.
const nameField = `(?m)(?:^|[\s{,-])["']?name["']?[ \t]*:\s*["']?(` + DispatcherName + `(?:-[0-9]{1,6})?)["']?[ \t\r]*(?:[,}#]|$)`

// FindNames returns the names of regcred's entries in a file. The kubelet need not be able to read
// the file.
func FindNames(data []byte) (names []string) {
	for _, m := range regexp.MustCompile(nameField).FindAllSubmatch(data, -1) {
		if name := string(m[1]); ownNamePattern().MatchString(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// RemoveByName removes regcred's entries from a file that the kubelet cannot read, for example
// because of an unknown field. It returns data if it contains no entry. It returns false if it
// cannot remove all entries.
func RemoveByName(data []byte) ([]byte, bool) {
	for len(FindNames(data)) > 0 {
		list := findList(data)
		if list == nil {
			return nil, false
		}
		i := -1
		for n := range list.Len() {
			if at := list.ItemSpan(n); len(FindNames(data[at.From:at.To])) > 0 {
				i = n
			}
		}
		if i < 0 {
			return nil, false
		}
		data = textedit.Apply(data, textedit.Edit{Span: list.RemovalSpan(i)})
	}
	return data, true
}

// findList locates the list of providers in a file.
func findList(data []byte) textedit.List {
	if textedit.IsJSON(data) {
		return textedit.FindJSONList(data, "providers")
	}
	document, _ := textedit.KubeletDocument(data)
	return textedit.FindYAMLList(data, document, "providers")
}
