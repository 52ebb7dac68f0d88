// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/textedit"
)

// Set returns a CredentialProviderConfig with our entries after all other providers, and
// without the entries named in previous, which regcred wrote before. All other bytes stay,
// so setting entries and then none restores data. Data is nil if the file is missing; the
// result is nil if only Set wrote to it. Name is the file's, for errors.
//
// It fails if a kubelet would not read the file; if an entry has one of our
// names and is not in previous; if we need tokenAttributes and the file's
// version does not support them; and if the file cannot be edited safely, in which case the
// error has the entries to add manually.
func Set(name string, data []byte, ours []Entry, previous []string) ([]byte, error) {
	if data == nil {
		return fresh(name, ours)
	}
	f, err := read(name, data, previous)
	if err != nil {
		return nil, err
	}
	if err := f.checkVersion(ours); err != nil {
		return nil, err
	}
	if f.isCreated() {
		return fresh(name, ours)
	}
	if f, err = f.remove(); err != nil || len(ours) == 0 {
		return f.data, err
	}
	return f.add(ours)
}

// Has reports whether a file has exactly our entries, in their order and at any place, and
// none of the others in previous. It fails if a kubelet would not read the file.
func Has(name string, data []byte, ours []Entry, previous []string) (bool, error) {
	if data == nil {
		return len(ours) == 0, nil
	}
	f, err := read(name, data, previous)
	if err != nil {
		return false, err
	}
	have := slices.DeleteFunc(slices.Clone(f.Providers), func(p config.Provider) bool { return !f.ours(p.Name) })
	return same(have, providersOf(ours)), nil
}

// fresh returns a file with only our entries, or nil for none.
func fresh(name string, ours []Entry) ([]byte, error) {
	if len(ours) == 0 {
		return nil, nil
	}
	data := created(ours)
	if got, err := config.Parse(name, data); err != nil || !same(got.Providers, providersOf(ours)) {
		return nil, fmt.Errorf("%s: the new file with regcred's entries does not parse correctly (%v): %s", name, err, byHand(ours))
	}
	return data, nil
}

// file is a configuration that may contain our entries.
type file struct {
	name     string
	data     []byte
	previous []string
	*config.Config
}

// read reads a file that can have our entries.
func read(name string, data []byte, previous []string) (file, error) {
	f := file{name: name, data: data, previous: previous}
	var err error
	if f.Config, err = config.Parse(name, data); err != nil {
		return f, err
	}
	if head := f.Files()[0]; head.OutOfTree() {
		return f, problem(head.Position("kind"), "the kubelet does not support this kind, so nothing was changed; convert the file with regcred convert")
	}
	for i, p := range f.Providers {
		if number(p.Name) > 0 && !f.ours(p.Name) {
			return f, problem(f.Position(i, "name"),
				"nothing was changed, because this entry has regcred's name but was written by another installation; remove the entry, or uninstall the other installation")
		}
	}
	return f, nil
}

func problem(at config.Position, msg string) error {
	return &config.FieldError{File: at.File, Line: at.Line, Column: at.Column, Path: at.Path, Msg: msg}
}

func (f *file) ours(name string) bool { return slices.Contains(f.previous, name) }

// checkVersion rejects tokenAttributes in a file whose version does not support them.
func (f *file) checkVersion(ours []Entry) error {
	head := f.Files()[0]
	i := slices.IndexFunc(ours, func(e Entry) bool { return e.TokenAttributes != nil })
	if i < 0 || head.APIVersion == config.V1 {
		return nil
	}
	return problem(head.Position("apiVersion"), fmt.Sprintf(
		"version %s is required, because the entry %q has tokenAttributes; convert the file with regcred convert", config.V1, ours[i].Name))
}

// isCreated reports whether [created] wrote f.
func (f *file) isCreated() bool {
	list := make([]Entry, len(f.Providers))
	for i, p := range f.Providers {
		if !f.ours(p.Name) {
			return false
		}
		list[i] = Entry{p.Name, p.APIVersion, p.MatchImages, p.TokenAttributes}
	}
	return bytes.Equal(f.data, created(list))
}

// remove returns f without our entries.
func (f *file) remove() (file, error) {
	left := *f
	for i := len(f.Providers) - 1; i >= 0; i-- {
		if !f.ours(f.Providers[i].Name) {
			continue
		}
		next, ok := left.drop(i)
		if !ok {
			return file{}, fmt.Errorf("%s: cannot remove the entry from a file formatted like this, so nothing was changed; remove provider %q manually, or put each provider on its own lines", f.Position(i, ""), f.Providers[i].Name)
		}
		left = next
	}
	return left, nil
}

// drop returns f without one provider.
func (f *file) drop(i int) (file, bool) {
	list := f.list()
	if list == nil {
		return file{}, false
	}
	return f.become(textedit.Apply(f.data, textedit.Edit{Span: list.Cut(i)}), slices.Delete(slices.Clone(f.Providers), i, i+1))
}

// add returns f's text with our entries added.
func (f *file) add(ours []Entry) ([]byte, error) {
	if list := f.list(); list != nil {
		for _, edit := range list.Append(newItems(ours)) {
			if data := textedit.Apply(f.data, edit); f.canRemove(data, ours) {
				return data, nil
			}
		}
	}
	return nil, fmt.Errorf("%s: cannot append to a list formatted like this, so nothing was changed; %s",
		f.Files()[0].Position("providers"), byHand(ours))
}

// canRemove reports whether data has f's providers and ours, and [file.remove]
// restores f's text from it.
func (f *file) canRemove(data []byte, ours []Entry) bool {
	after, ok := f.become(data, append(slices.Clone(f.Providers), providersOf(ours)...))
	if !ok {
		return false
	}
	after.previous = nil
	for _, e := range ours {
		after.previous = append(after.previous, e.Name)
	}
	back, err := after.remove()
	return err == nil && bytes.Equal(back.data, f.data)
}

// become returns f with another text. It returns false if the text has other
// providers than wanted, or another version.
func (f *file) become(data []byte, want []config.Provider) (file, bool) {
	c, err := config.Parse(f.name, data)
	if err != nil || !same(c.Providers, want) || c.Files()[0].APIVersion != f.Files()[0].APIVersion {
		return file{}, false
	}
	return file{f.name, data, f.previous, c}, true
}

// list returns the list of providers in f's text, or nil if it cannot be located.
func (f *file) list() textedit.List { return find(f.Config) }

func find(c *config.Config) (list textedit.List) {
	f := c.Files()[0]
	if textedit.IsJSON(f.Data()) {
		list = textedit.FindJSON(f.Data(), "providers")
	} else {
		document, _ := textedit.Document(f.Data()) // UTF-8
		list = textedit.FindYAML(f.Data(), document, "providers")
	}
	if list == nil || list.Len() != len(c.Providers) {
		return nil
	}
	return list
}

func providersOf(list []Entry) []config.Provider {
	providers := make([]config.Provider, len(list))
	for i := range list {
		providers[i] = list[i].Provider()
	}
	return providers
}

func same(a, b []config.Provider) bool {
	return slices.EqualFunc(a, b, func(p, q config.Provider) bool { return p.Equal(&q) })
}

// byHand returns the advice for a file that cannot be edited, with the entries
// as JSON, which is valid in YAML.
func byHand(ours []Entry) string {
	texts := make([]string, len(ours))
	for i := range ours {
		texts[i] = textedit.EncodeJSON(newFields(ours[i].Provider()), "", "")
	}
	return "append to the providers list manually: " + strings.Join(texts, ", ")
}
