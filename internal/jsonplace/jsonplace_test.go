// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package jsonplace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

func TestParse(t *testing.T) {
	const text = " {\"a\" : [1,\"b\\\"\",\n null],\n  \"a\":{\"\\u0063\":true}}\n"
	root := must.Get(Parse([]byte(text)))(t)
	if got, want := fmt.Sprintf("%d %s %s %s", len(root.Members), root.Members[0].Key, root.Members[1].Key, root.Members[1].Members[0].Key), "2 a a c"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	items := root.Members[0].Items
	if got, want := text[items[1].Start:items[1].End]+items[1].Text, `"b\""b"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for offset, want := range map[int]string{root.Members[1].Start: "3:3", root.Members[1].Members[0].Value.Start: "3:17", -1: "1:1", 1 << 20: "4:1"} {
		if line, column := LineColumn([]byte(text), offset); fmt.Sprintf("%d:%d", line, column) != want {
			t.Errorf("offset %d: got %d:%d, want %s", offset, line, column, want)
		}
	}
}

// TestLines compares LineIndex.LineColumn with LineColumn.
func TestLines(t *testing.T) {
	for _, text := range []string{"", "\n", "a\n\nbc\n", "a"} {
		lines := NewLineIndex([]byte(text))
		for offset := range len(text) + 1 {
			line, column := lines.LineColumn(offset)
			if wantLine, wantColumn := LineColumn([]byte(text), offset); line != wantLine || column != wantColumn {
				t.Errorf("%q at %d: got %d:%d, want %d:%d", text, offset, line, column, wantLine, wantColumn)
			}
		}
	}
}

// TestDepth verifies that the maximum nesting depth is the same as in encoding/json.
func TestDepth(t *testing.T) {
	for depth, ok := range map[int]bool{10000: true, 10001: false} {
		if _, err := Parse([]byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))); (err == nil) != ok {
			t.Errorf("depth %d: %v", depth, err)
		}
	}
}

// FuzzParse verifies that decoding the text of each value with encoding/json returns the parsed
// value.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{}`, `[]`, `{"a":[1,-2e3,"\"",true,null],"a":{}}`, ` "x" `, `{"a":1,}`, "\ufeff{}", `"\ud800"`, "1", "{\"a\":\x00}", "[[],{},[{}]]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		root, err := Parse(data)
		if (err == nil) != json.Valid(data) {
			t.Fatalf("error %v, but valid: %v", err, json.Valid(data))
		}
		if err != nil {
			if offset, ok := SyntaxOffset(err); !ok || offset > len(data) {
				t.Fatalf("offset %d, %v", offset, ok)
			}
			return
		}
		checkPositions(t, data, root)
		if root.ValueAt(root.End) == nil || root.ValueAt(root.Start) != nil {
			t.Error("the root does not hold its own last byte, or the one before its first")
		}
	})
}

func checkPositions(t *testing.T, data []byte, v *Value) {
	var want, got any
	want = decodeValue(t, data, v)
	switch v.Kind {
	case KindObject:
		members := map[string]any{}
		for _, m := range v.Members {
			checkPositions(t, data, m.Value)
			if data[m.Start] != '"' {
				t.Fatalf("no key at %d", m.Start)
			}
			members[m.Key] = decodeValue(t, data, m.Value)
		}
		got = members
	case KindArray:
		items := []any{}
		for _, item := range v.Items {
			checkPositions(t, data, item)
			items = append(items, decodeValue(t, data, item))
		}
		got = items
	case KindString:
		got = v.Text
	default:
		got = want
		if kinds := map[bool]Kind{true: KindBool, false: KindNumber}; want == nil && v.Kind != KindNull || want != nil && v.Kind != kinds[reflect.TypeOf(want).Kind() == reflect.Bool] {
			t.Fatalf("%v is %s", want, v.Kind)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// decodeValue decodes the text of a value with encoding/json. It keeps numbers as text, because some do
// not fit into Go's types.
func decodeValue(t *testing.T, data []byte, v *Value) (x any) {
	d := json.NewDecoder(bytes.NewReader(data[v.Start:v.End]))
	d.UseNumber()
	if err := d.Decode(&x); err != nil {
		t.Fatalf("%d to %d: %v", v.Start, v.End, err)
	}
	return x
}
