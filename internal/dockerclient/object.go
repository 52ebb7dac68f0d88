// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerclient

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/regcred/regcred/dockerconfig"
	"github.com/regcred/regcred/internal/jsonplace"
	"github.com/regcred/regcred/internal/textedit"
)

// jsonObject is the text of a JSON object, including its braces. Members are added at
// the beginning and cut out of the text, so that all other bytes stay the same. Cutting
// out an added member restores the original text.
type jsonObject []byte

type jsonMember = jsonplace.Member

const jsonWhitespace = " \t\r\n"

// parseMembers returns the members of an object. It returns an error for other JSON
// values.
func (o jsonObject) parseMembers() ([]jsonMember, error) {
	v, err := jsonplace.Parse(o)
	if err != nil || v.Kind != jsonplace.KindObject {
		return nil, errors.New("not a JSON object")
	}
	return v.Members, nil
}

func (o jsonObject) memberValue(m jsonMember) jsonObject { return o[m.Value.Start:m.End] }

// removeMember removes member i and the comma next to it.
func (o jsonObject) removeMember(list []jsonMember, i int) jsonObject {
	from, to := 1, list[i].End
	switch {
	case i > 0:
		from = list[i-1].End
	case len(list) > 1:
		to += 1 + bytes.IndexByte(o[to:], ',')
	}
	return textedit.Apply(o, textedit.Edit{Span: textedit.Span{From: from, To: to}})
}

func (o jsonObject) removeMembersIf(unwanted func(jsonMember) bool) (jsonObject, error) {
	list, err := o.parseMembers()
	if err != nil {
		return nil, err
	}
	for i := len(list) - 1; i >= 0; i-- {
		if unwanted(list[i]) {
			o = o.removeMember(list, i)
			list = append(list[:i:i], list[i+1:]...) // members before it keep their offsets
		}
	}
	return o, nil
}

// prependMembers adds members before all others, in the same style. If the object is
// empty, they are put on one line.
func (o jsonObject) prependMembers(added ...string) jsonObject {
	if len(added) == 0 {
		return o
	}
	text := strings.Join(added, ", ")
	if list, _ := o.parseMembers(); len(list) > 0 {
		gap := string(o[1:list[0].Start])
		text = gap + strings.Join(added, ","+gap) + ","
	}
	return textedit.Apply(o, textedit.InsertEdit(1, text))
}

func (o jsonObject) setMemberValue(m jsonMember, value jsonObject) jsonObject {
	return textedit.Apply(o, textedit.Edit{Span: textedit.Span{From: m.Value.Start, To: m.End}, Text: string(value)})
}

// jsonStyle is the whitespace between the members of an object.
type jsonStyle struct {
	line   string // text before each line, without indentation; "" if all members are on one line
	indent string // indentation of one level
	colon  string // text between name and value
}

// memberStyle returns the style of the first member, or docker's style for an empty object.
func (o jsonObject) memberStyle() jsonStyle {
	list, err := o.parseMembers()
	if err != nil || len(list) == 0 {
		return jsonStyle{"\n", "\t", ": "}
	}
	gap := string(o[1:list[0].Start])
	between := o[list[0].Start:list[0].Value.Start]
	s := jsonStyle{colon: string(between[bytes.LastIndexByte(between, '"')+1:])}
	if strings.Contains(s.colon, "\n") {
		s.colon = ": "
	}
	if end := strings.LastIndexByte(gap, '\n') + 1; end > 0 {
		s.line, s.indent = "\n", gap[end:]
		if strings.HasSuffix(gap[:end], "\r\n") {
			s.line = "\r\n"
		}
	}
	return s
}

func (s jsonStyle) stringMember(name, value string) string {
	return quoteJSON(name) + s.colon + quoteJSON(value)
}

// objectMember returns a member whose value is an object. The object has whitespace before its
// first member. [jsonObject.prependMembers] adds no whitespace there to an empty object, so
// [jsonObject.startsWithSpace] can tell which of them wrote an object.
func (s jsonStyle) objectMember(name string, members []string) string {
	begin, end, between := " ", "", " "
	if s.line != "" {
		begin, end = s.line+s.indent+s.indent, s.line+s.indent
		between = begin
	}
	return quoteJSON(name) + s.colon + "{" + begin + strings.Join(members, ","+between) + end + "}"
}

// startsWithSpace reports whether an object was written by [jsonStyle.objectMember], or by a program that
// puts the first member on a separate line.
func (o jsonObject) startsWithSpace() bool { return strings.IndexByte(jsonWhitespace, o[1]) >= 0 }

func quoteJSON(s string) string { return textedit.EncodeJSON(s, "", "") }

// MaskValues returns a copy of a file that is safe to show: all values except helper
// names are masked. It returns nil if [ReadEntries] fails for the file.
func MaskValues(data []byte) []byte {
	d, err := parseDocument(data)
	if err != nil || d == nil {
		return nil
	}
	list, _ := d.parseMembers() // parseDocument has checked the file
	for _, m := range slices.Backward(list) {
		if !isFieldNamed(m, credHelpersField) && !isFieldNamed(m, credsStoreField) {
			d.jsonObject = d.jsonObject.setMemberValue(m, jsonObject(`"…"`))
		}
	}
	return d.encode()
}

// AuthsProblem returns why the credentials in a file cannot be decoded, or "". Clients that decode
// the whole file then cannot use its helpers either. data is nil if there is no file.
func AuthsProblem(data []byte) string {
	if data == nil {
		return ""
	}
	if _, err := dockerconfig.ParseFile(data); err != nil {
		return err.Error()
	}
	return ""
}

// HiddenCredentials returns the keys of credentials that clients ignore if the given hosts have a
// helper. The hosts are spelled as in [HelperEntries].
func HiddenCredentials(data []byte, hosts []string) (keys []string) {
	file, err := dockerconfig.ParseFile(data)
	if err != nil {
		return nil // clients find no credentials in this file
	}
	for _, key := range slices.Sorted(maps.Keys(file.Auths)) {
		host, _, _ := strings.Cut(dockerconfig.Scope(key), "/")
		if slices.ContainsFunc(hosts, func(h string) bool { return dockerconfig.Scope(h) == host }) {
			keys = append(keys, key)
		}
	}
	return keys
}
