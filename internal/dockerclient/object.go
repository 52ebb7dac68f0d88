// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// An object is the text of a JSON object, from its brace to its brace. It is
// changed by putting members in front of all others and by cutting members out,
// so that every other byte stays, and a member that is cut out again leaves
// what was there before it came.
type object []byte

// member is a member of an object: its name, and where in the text it is.
type member struct {
	name              string
	start, value, end int // of the name with its quotes, of the value, and behind it
}

const space = " \t\r\n"

// members reads an object, which is valid JSON. The error is that it is a
// value of another kind.
func (o object) members() (list []member, err error) {
	dec := json.NewDecoder(bytes.NewReader(o))
	if begin, err := dec.Token(); err != nil || begin != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	for dec.More() {
		m := member{start: skip(o, int(dec.InputOffset()), space+",")}
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		m.name, _ = name.(string)
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		m.end = int(dec.InputOffset())
		m.value = m.end - len(value)
		list = append(list, m)
	}
	return list, nil
}

// skip is where in text, from an offset on, other bytes begin than those.
func skip(text []byte, from int, bytes string) int {
	for from < len(text) && strings.IndexByte(bytes, text[from]) >= 0 {
		from++
	}
	return from
}

// text returns the value of a member as it is written.
func (o object) text(m member) object { return o[m.value:m.end] }

// cut takes the member of an index out, with the comma that it came with.
func (o object) cut(list []member, i int) object {
	from, to := 1, list[i].end
	switch {
	case i > 0:
		from = list[i-1].end
	case len(list) > 1:
		to += 1 + bytes.IndexByte(o[to:], ',')
	}
	return splice(o, from, to, "")
}

// keep takes out all members that are not to be kept.
func (o object) keep(wanted func(member) bool) (object, error) {
	list, err := o.members()
	if err != nil {
		return nil, err
	}
	for i := len(list) - 1; i >= 0; i-- {
		if !wanted(list[i]) {
			o = o.cut(list, i)
			list = append(list[:i:i], list[i+1:]...) // those before it stand where they did
		}
	}
	return o, nil
}

// put puts new members in front of all others, in the style of these. An
// object without members gets them on one line.
func (o object) put(written ...string) object {
	if len(written) == 0 {
		return o
	}
	list, _ := o.members()
	if len(list) == 0 {
		return splice(o, 1, 1, strings.Join(written, ", "))
	}
	gap := string(o[1:list[0].start])
	return splice(o, 1, 1, gap+strings.Join(written, ","+gap)+",")
}

// replace puts a text in place of the value of a member.
func (o object) replace(m member, value object) object {
	return splice(o, m.value, m.end, string(value))
}

func splice(o object, from, to int, with string) object {
	out := make(object, 0, len(o)+len(with))
	out = append(append(out, o[:from]...), with...)
	return append(out, o[to:]...)
}

// style is how the members of an object are written.
type style struct {
	line   string // what begins a line, without indentation; "" if all stand on one
	indent string // of one level
	colon  string // between name and value
}

// style is that of the first member, or docker's if there is none.
func (o object) style() style {
	list, err := o.members()
	if err != nil || len(list) == 0 {
		return style{"\n", "\t", ": "}
	}
	gap := string(o[1:list[0].start])
	s := style{colon: string(o[list[0].start+quoted(o[list[0].start:]) : list[0].value])}
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

// quoted is the length of the string with which a text begins.
func quoted(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// pair writes a member whose value is a string.
func (s style) pair(name, value string) string { return quote(name) + s.colon + quote(value) }

// nested writes an object as a member of one in this style. Its first member
// has white space before it, as [object.put] never leaves it in an object that
// had none: so they can be told apart.
func (s style) nested(name string, members []string) string {
	begin, end, between := " ", "", " "
	if s.line != "" {
		begin, end = s.line+s.indent+s.indent, s.line+s.indent
		between = begin
	}
	return quote(name) + s.colon + "{" + begin + strings.Join(members, ","+between) + end + "}"
}

// isNested reports whether an object was written by [style.nested], or by a
// program that writes the first member of an object on a line of its own.
func (o object) isNested() bool { return skip(o, 1, space) > 1 }

// quote writes a JSON string.
func quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string is always encoded
	return strings.TrimSuffix(b.String(), "\n")
}
