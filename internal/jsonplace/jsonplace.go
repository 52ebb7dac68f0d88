// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package jsonplace returns the positions of the values of a JSON text. It accepts exactly
// what encoding/json accepts.
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

// The kinds of values.
const (
	Object Kind = "object"
	Array  Kind = "array"
	String Kind = "string"
	Number Kind = "number"
	Bool   Kind = "boolean"
	Null   Kind = "null"
)

// Value is a JSON value. Its text is data[Start:End].
type Value struct {
	Kind       Kind
	Start, End int      // bytes
	Text       string   // of a String, decoded
	Members    []Member // of an Object, in their order
	Items      []*Value // of an Array
}

// Member is one member of an object.
type Member struct {
	Key   string // decoded
	Start int    // of the key's quote, in bytes
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
	return p.value(), nil
}

// At returns the innermost value that contains the byte before offset, as counted by
// json.UnmarshalTypeError; nil if no value contains it.
func (v *Value) At(offset int) *Value {
	if offset <= v.Start || offset > v.End {
		return nil
	}
	for _, m := range v.Members {
		if found := m.Value.At(offset); found != nil {
			return found
		}
	}
	for _, item := range v.Items {
		if found := item.At(offset); found != nil {
			return found
		}
	}
	return v
}

// LineColumn returns the line and column, in bytes, of an offset, both counted from 1. It
// limits the offset to data.
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

// parser parses text that encoding/json has accepted, so it checks nothing.
type parser struct {
	data []byte
	*json.Decoder
}

// next returns the offset of the next token.
func (p parser) next() int {
	at := int(p.InputOffset())
	return at + len(p.data[at:]) - len(bytes.TrimLeft(p.data[at:], " \t\r\n,:"))
}

func (p parser) value() *Value {
	v := &Value{Start: p.next()}
	token, _ := p.Token() // never fails, the text is valid
	switch t := token.(type) {
	case json.Delim:
		v.Kind = Array
		if t == '{' {
			v.Kind = Object
		}
		for p.More() {
			if t == '{' {
				v.Members = append(v.Members, p.member())
			} else {
				v.Items = append(v.Items, p.value())
			}
		}
		_, _ = p.Token() // the closing bracket
	case string:
		v.Kind, v.Text = String, t
	case json.Number:
		v.Kind = Number
	case bool:
		v.Kind = Bool
	case nil:
		v.Kind = Null
	}
	v.End = int(p.InputOffset())
	return v
}

func (p parser) member() Member {
	start := p.next()
	key, _ := p.Token()
	name, _ := key.(string)
	return Member{Key: name, Start: start, Value: p.value()}
}

// Lines converts many offsets of a text to lines and columns.
type Lines struct{ starts []int }

// NewLines finds the lines of a text.
func NewLines(data []byte) Lines {
	starts := []int{0}
	for i, c := range data {
		if c == '\n' {
			starts = append(starts, i+1)
		}
	}
	return Lines{starts}
}

// At is [LineColumn] for an offset within the text.
func (l Lines) At(offset int) (line, column int) {
	line = sort.SearchInts(l.starts, offset+1)
	return line, offset - l.starts[line-1] + 1
}
