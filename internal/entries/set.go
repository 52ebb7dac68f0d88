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

// SetEntries returns the CredentialProviderConfig in data with our entries after all other
// providers. It first removes the entries named in previous, which regcred wrote before.
// All other bytes stay the same, so setting entries and then no entries restores data.
//
// data is nil if the file does not exist. The result is nil if ours is empty and the file
// contains only what Set wrote. name is the file's name, for errors.
//
// Set returns an error in these cases:
//
//   - A kubelet would not read the file.
//   - An entry has one of regcred's names but is not in previous.
//   - Our entries have tokenAttributes, but the file's version does not support them.
//   - The file cannot be edited safely. The error lists the entries to add manually.
func SetEntries(name string, data []byte, ours []Entry, previous []string) ([]byte, error) {
	if data == nil {
		return newFile(name, ours)
	}
	f, err := readFile(name, data, previous)
	if err != nil {
		return nil, err
	}
	if err := f.checkVersion(ours); err != nil {
		return nil, err
	}
	if f.isWrittenBySet() {
		return newFile(name, ours)
	}
	if f, err = f.removeOwn(); err != nil || len(ours) == 0 {
		return f.data, err
	}
	return f.addEntries(ours)
}

// HasEntries reports whether a file contains our entries in the given order, and no other
// entry named in previous. Other providers may be between them. It returns an error if a
// kubelet would not read the file.
func HasEntries(name string, data []byte, ours []Entry, previous []string) (bool, error) {
	if data == nil {
		return len(ours) == 0, nil
	}
	f, err := readFile(name, data, previous)
	if err != nil {
		return false, err
	}
	have := slices.DeleteFunc(slices.Clone(f.Providers), func(p config.Provider) bool { return !f.isOwnEntry(p.Name) })
	return sameProviders(have, toProviders(ours)), nil
}

// Remove returns a file without regcred's entries. Unlike [SetEntries], it never returns nil: it keeps
// a file in which no provider is left.
func Remove(name string, data []byte, previous []string) ([]byte, error) {
	f, err := readFile(name, data, previous)
	if err == nil {
		f, err = f.removeOwn()
	}
	return f.data, err
}

// newFile returns a file with only regcred's entries, or nil if there are none.
func newFile(name string, ours []Entry) ([]byte, error) {
	if len(ours) == 0 {
		return nil, nil
	}
	data := newFileText(ours)
	if got, err := config.Parse(name, data); err != nil || !sameProviders(got.Providers, toProviders(ours)) {
		return nil, fmt.Errorf("%s: the new file with regcred's entries does not parse correctly (%v): %s", name, err, manualEditAdvice(ours))
	}
	return data, nil
}

// configFile is a configuration that may contain regcred's entries.
type configFile struct {
	name     string
	data     []byte
	previous []string
	*config.Config
}

// readFile reads a file that may contain regcred's entries.
func readFile(name string, data []byte, previous []string) (configFile, error) {
	f := configFile{name: name, data: data, previous: previous}
	var err error
	if f.Config, err = config.Parse(name, data); err != nil {
		return f, err
	}
	if head := f.Files()[0]; head.OutOfTree() {
		return f, newPositionError(head.Position("kind"), "the kubelet does not support this kind, so nothing was changed; convert the file with regcred convert")
	}
	for i, p := range f.Providers {
		if entryNumber(p.Name) > 0 && !f.isOwnEntry(p.Name) {
			return f, newPositionError(f.Position(i, "name"),
				"nothing was changed, because this entry has regcred's name but was written by another installation; remove the entry, or uninstall the other installation")
		}
	}
	return f, nil
}

func newPositionError(at config.Position, msg string) error {
	return &config.FieldError{File: at.File, Line: at.Line, Column: at.Column, Path: at.Path, Msg: msg}
}

func (f *configFile) isOwnEntry(name string) bool { return slices.Contains(f.previous, name) }

// checkVersion rejects tokenAttributes in a file whose version does not support them.
func (f *configFile) checkVersion(ours []Entry) error {
	head := f.Files()[0]
	i := slices.IndexFunc(ours, func(e Entry) bool { return e.TokenAttributes != nil })
	if i < 0 || head.APIVersion == config.V1 {
		return nil
	}
	return newPositionError(head.Position("apiVersion"), fmt.Sprintf(
		"version %s is required, because the entry %q has tokenAttributes; convert the file with regcred convert", config.V1, ours[i].Name))
}

// isWrittenBySet reports whether f is unchanged since newFile wrote it.
func (f *configFile) isWrittenBySet() bool {
	list := make([]Entry, len(f.Providers))
	for i, p := range f.Providers {
		if !f.isOwnEntry(p.Name) {
			return false
		}
		list[i] = Entry{p.Name, p.APIVersion, p.MatchImages, p.TokenAttributes}
	}
	return bytes.Equal(f.data, newFileText(list))
}

func (f *configFile) removeOwn() (configFile, error) {
	left := *f
	for i := len(f.Providers) - 1; i >= 0; i-- {
		if !f.isOwnEntry(f.Providers[i].Name) {
			continue
		}
		next, ok := left.removeProvider(i)
		if !ok {
			return configFile{}, fmt.Errorf("%s: cannot remove the entry from a file formatted like this, so nothing was changed; remove provider %q manually, or put each provider on its own lines", f.Position(i, ""), f.Providers[i].Name)
		}
		left = next
	}
	return left, nil
}

func (f *configFile) removeProvider(i int) (configFile, bool) {
	list := f.providerList()
	if list == nil {
		return configFile{}, false
	}
	return f.withText(textedit.Apply(f.data, textedit.Edit{Span: list.RemovalSpan(i)}), slices.Delete(slices.Clone(f.Providers), i, i+1))
}

func (f *configFile) addEntries(ours []Entry) ([]byte, error) {
	if list := f.providerList(); list != nil {
		for _, edit := range list.AppendEdits(newListItems(ours)) {
			if data := textedit.Apply(f.data, edit); f.canRemove(data, ours) {
				return data, nil
			}
		}
	}
	return nil, fmt.Errorf("%s: cannot append to a list formatted like this, so nothing was changed; %s",
		f.Files()[0].Position("providers"), manualEditAdvice(ours))
}

// canRemove reports whether data contains f's providers and regcred's entries, and whether
// removing regcred's entries from data restores f's text.
func (f *configFile) canRemove(data []byte, ours []Entry) bool {
	after, ok := f.withText(data, append(slices.Clone(f.Providers), toProviders(ours)...))
	if !ok {
		return false
	}
	after.previous = nil
	for _, e := range ours {
		after.previous = append(after.previous, e.Name)
	}
	back, err := after.removeOwn()
	return err == nil && bytes.Equal(back.data, f.data)
}

// withText returns f with a different text. It returns false if the text does not have
// the wanted providers, or has a different version.
func (f *configFile) withText(data []byte, want []config.Provider) (configFile, bool) {
	c, err := config.Parse(f.name, data)
	if err != nil || !sameProviders(c.Providers, want) || c.Files()[0].APIVersion != f.Files()[0].APIVersion {
		return configFile{}, false
	}
	return configFile{f.name, data, f.previous, c}, true
}

// providerList returns the provider list in f's text, or nil if it cannot be located.
func (f *configFile) providerList() textedit.List { return findProviderList(f.Config) }

func findProviderList(c *config.Config) (list textedit.List) {
	list = findList(c.Files()[0].Data())
	if list == nil || list.Len() != len(c.Providers) {
		return nil
	}
	return list
}

func toProviders(list []Entry) []config.Provider {
	providers := make([]config.Provider, len(list))
	for i := range list {
		providers[i] = list[i].Provider()
	}
	return providers
}

func sameProviders(a, b []config.Provider) bool {
	return slices.EqualFunc(a, b, func(p, q config.Provider) bool { return p.Equal(&q) })
}

// manualEditAdvice returns instructions for a file that cannot be edited. It includes
// the entries as JSON, which is valid in YAML.
func manualEditAdvice(ours []Entry) string {
	texts := make([]string, len(ours))
	for i := range ours {
		texts[i] = textedit.EncodeJSON(newProviderFields(ours[i].Provider()), "", "")
	}
	return "append to the providers list manually: " + strings.Join(texts, ", ")
}

// maskedText replaces text that must not be shown.
const maskedText = "…"

// MaskValues returns a copy of a configuration that is safe to show in a diff. In providers
// with args or env, which may be secrets, it replaces the text of each line but keeps the
// indentation. If there is such a provider, it also replaces all comments outside of providers. If
// the configuration cannot be parsed, it replaces all lines. It returns nil for nil.
func MaskValues(data []byte) []byte {
	if data == nil {
		return nil
	}
	c, err := config.Parse("", data)
	if err != nil {
		return maskLines(data, isAnyLine)
	}
	list := findProviderList(c)
	if list == nil {
		return maskLines(data, isAnyLine)
	}
	masked := false
	for i, p := range slices.Backward(c.Providers) {
		if len(p.Args) > 0 || len(p.Env) > 0 {
			at := list.ItemSpan(i)
			data = textedit.Apply(data, textedit.Edit{Span: at, Text: string(maskLines(data[at.From:at.To], isAnyLine))})
			masked = true
		}
	}
	if masked {
		data = maskLines(data, isCommentLine)
	}
	return data
}

func isAnyLine([]byte) bool { return true }

func isCommentLine(line []byte) bool { return bytes.HasPrefix(line, []byte("#")) }

// maskLines hides each line that a function selects, except its indentation and line ending. The
// function is called without the indentation.
func maskLines(text []byte, hides func(line []byte) bool) (shown []byte) {
	for line := range bytes.Lines(text) {
		content := bytes.TrimRight(line, "\r\n")
		trimmed := bytes.TrimLeft(content, " \t")
		if len(trimmed) == 0 || !hides(trimmed) {
			shown = append(shown, line...)
			continue
		}
		shown = append(append(shown, textedit.Indentation(line)...), maskedText...)
		shown = append(shown, line[len(content):]...)
	}
	return shown
}
