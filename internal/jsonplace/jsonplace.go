// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package jsonplace parses a JSON text and returns its values with their positions.
// It accepts exactly what encoding/json accepts.
//
//	root, err := jsonplace.Parse(data)
//	…
//	for _, m := range root.Members {
//		line, column := jsonplace.LineColumn(data, m.Start)
//	}
//
// It keeps the order of an object's members, and members with equal names.
package jsonplace

import (
	"bytes"
	"encoding/json"
	"errors"
	"sort"
)

// Kind is the type of a JSON value.
type Kind string

// Kinds of JSON values.
const (
	KindObject Kind = "object"
	KindArray  Kind = "array"
	KindString Kind = "string"
	KindNumber Kind = "number"
	KindBool   Kind = "boolean"
	KindNull   Kind = "null"
)

// Value is a JSON value. Its text is data[Start:End].
type Value struct {
	Kind       Kind
	Start, End int      // bytes
	Text       string   // decoded text of a KindString
	Members    []Member // members of a KindObject, in order
	Items      []*Value // of a KindArray
}

// Member is one member of an object.
type Member struct {
	Key   string // decoded
	Start int    // offset of the key's opening quote, in bytes
	*Value
}

// Parse parses a JSON text. It returns the error of encoding/json, which may quote a byte
// of the text.
func Parse(data []byte) (*Value, error) {
	var raw json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}
	p := parser{data, json.NewDecoder(bytes.NewReader(data))}
	p.UseNumber()
	return p.parseValue(), nil
}

// ValueAt returns the innermost value that contains the byte before offset, as counted
// by json.UnmarshalTypeError, or nil if no value contains it.
func (v *Value) ValueAt(offset int) *Value {
	if offset <= v.Start || offset > v.End {
		return nil
	}
	for _, m := range v.Members {
		if found := m.Value.ValueAt(offset); found != nil {
			return found
		}
	}
	for _, item := range v.Items {
		if found := item.ValueAt(offset); found != nil {
			return found
		}
	}
	return v
}

// LineColumn returns the line and the column of an offset, both starting at 1. The column
// counts bytes. An offset outside data is moved to the nearest end of data.
func LineColumn(data []byte, offset int) (line, column int) {
	before := data[:min(max(offset, 0), len(data))]
	return 1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')
}

// SyntaxOffset returns the offset of a syntax error.
func SyntaxOffset(err error) (offset int, ok bool) {
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return 0, false
	}
	return max(int(syntax.Offset)-1, 0), true
}

// parser parses text that encoding/json has already accepted, so it does no validation.
type parser struct {
	data []byte
	*json.Decoder
}

// nextTokenOffset returns the offset of the next token.
func (p parser) nextTokenOffset() int {
	at := int(p.InputOffset())
	return at + len(p.data[at:]) - len(bytes.TrimLeft(p.data[at:], " \t\r\n,:"))
}

func (p parser) parseValue() *Value {
	v := &Value{Start: p.nextTokenOffset()}
	token, _ := p.Token() // cannot fail, because the text is valid
	switch t := token.(type) {
	case json.Delim:
		v.Kind = KindArray
		if t == '{' {
			v.Kind = KindObject
		}
		for p.More() {
			if t == '{' {
				v.Members = append(v.Members, p.parseMember())
			} else {
				v.Items = append(v.Items, p.parseValue())
			}
		}
		_, _ = p.Token() // the closing bracket
	case string:
		v.Kind, v.Text = KindString, t
	case json.Number:
		v.Kind = KindNumber
	case bool:
		v.Kind = KindBool
	case nil:
		v.Kind = KindNull
	}
	v.End = int(p.InputOffset())
	return v
}

func (p parser) parseMember() Member {
	start := p.nextTokenOffset()
	key, _ := p.Token()
	name, _ := key.(string)
	return Member{Key: name, Start: start, Value: p.parseValue()}
}

// LineIndex converts many offsets in the same text to lines and columns.
type LineIndex struct{ starts []int }

// NewLineIndex finds the lines of a text.
func NewLineIndex(data []byte) LineIndex {
	starts := []int{0}
	for i, c := range data {
		if c == '\n' {
			starts = append(starts, i+1)
		}
	}
	return LineIndex{starts}
}

// LineColumn is like [LineColumn], for an offset within the text.
func (l LineIndex) LineColumn(offset int) (line, column int) {
	line = sort.SearchInts(l.starts, offset+1)
	return line, offset - l.starts[line-1] + 1
}
