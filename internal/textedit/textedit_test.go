// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package textedit

import (
	"fmt"
	"strings"
	"testing"
)

// TestOffsetInAnyOrder verifies that Offset does not depend on the order of lookups, although a
// lookup may start at the previous position.
func TestOffsetInAnyOrder(t *testing.T) {
	lines := NewLineIndex([]byte("\ufeffkind: x\r\n\n# räksmörgås\n\nproviders: []"))
	for _, tt := range []struct{ line, column, want int }{
		{3, 5, 5}, {3, 7, 7}, {3, 2, 1}, {5, 3, 2}, {3, 9, 10}, {4, 5, 0}, {5, 100, 13}, {3, 13, 15}, {1, 7, 6}, {1, 99, 8}, {2, 1, 0},
	} {
		line, ok := lines.Line(tt.line)
		if got := lines.Offset(tt.line, tt.column) - line.From; !ok || got != tt.want {
			t.Errorf("%d:%d: got byte %d, want %d", tt.line, tt.column, got, tt.want)
		}
	}
	for _, line := range []int{-1, 0, 6} {
		if got := lines.Offset(line, 1); got != -1 {
			t.Errorf("line %d: got %d, want -1", line, got)
		}
	}
}

func TestApply(t *testing.T) {
	edits := []Edit{InsertEdit(6, "!"), {Span{0, 2}, "b"}, {Span{3, 4}, ""}, {Span{0, 2}, "b"}}
	if got := string(Apply([]byte("012345"), edits...)); got != "b245!" {
		t.Errorf("got %q", got)
	}
}

func TestParseYAML(t *testing.T) {
	for text, want := range map[string]bool{"": true, "a: 1": true, "a: [": false} {
		if top, err := ParseYAML([]byte(text)); (err == nil) != want || err != nil && top != nil {
			t.Errorf("%q: %v, %v", text, top, err)
		}
	}
}

// FuzzList verifies the spans of lists in any text, and that removing an appended item restores
// the text.
func FuzzList(f *testing.F) {
	for _, list := range []string{"", " []", " [{n: 1}, # c\n {n: 2},]", "\n- n: 1\n  # c\n- n: 2", "\n  -\n    n: 1\n\n# c", " &a !!seq [']', \"\\\"]\"]", "\n- |+\n  a\n\n", " null", " *a"} {
		f.Add("list:" + list + "\nother: 1\n")
		f.Add("\ufefflist:" + strings.ReplaceAll(list, "\n", "\r\n"))
	}
	for _, text := range []string{`{"list": [{"n": 1}, 2]}`, "{\n\t\"list\": [\n\t\t1\n\t]\n}", `{"li\u0073t" : [ ]}`, `{"list": {}}`, "[", `{"list": [1]} x`} {
		f.Add(text)
	}
	item := ListItem{Lines: []string{"- new: x"}, Value: map[string]string{"new": "x"}}
	f.Fuzz(func(t *testing.T, text string) {
		for name, find := range map[string]func([]byte) List{
			"JSON": func(data []byte) List { return FindJSONList(data, "list") },
			"YAML": func(data []byte) List { return FindYAMLList(data, data, "list") },
		} {
			list := find([]byte(text))
			if list == nil {
				continue
			}
			last := 0
			for i := range list.Len() {
				at, cut := list.ItemSpan(i), list.RemovalSpan(i)
				if at.From < last || at.To < at.From || at.To > len(text) || cut.From > cut.To || cut.To > len(text) {
					t.Fatalf("%s: item %d of %q is at %v, cut %v", name, i, text, at, cut)
				}
				last = at.To
			}
			for _, edit := range list.AppendEdits([]ListItem{item}) {
				changed := Apply([]byte(text), edit)
				after := find(changed)
				if after == nil || after.Len() != list.Len()+1 {
					continue // callers detect this when they parse the result
				}
				if got := Apply(changed, Edit{Span: after.RemovalSpan(list.Len())}); name == "JSON" && string(got) != text {
					t.Errorf("%s: %q became %q", name, text, fmt.Sprintf("%s, then %s", changed, got))
				}
			}
		}
	})
}
