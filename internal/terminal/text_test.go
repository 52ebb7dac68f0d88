// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package terminal

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
)

func TestEscapeLines(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"plain", "a b\tc\nd é", "a b\tc\nd é"},
		{"escape sequence", "\x1b[2Jok", `\x1b[2Jok`},
		{"carriage return", "error: all is well\rno", `error: all is well\rno`},
		{"not UTF-8", "a\xffb", `a\ufffdb`},
		{"text direction", "a\u202eb", `a\u202eb`},
		{"C1", "a\u009bb", `a\u009bb`},
		{"separator of lines", "a\u2028b", `a\u2028b`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := escapeLines(tt.in); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWrap(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"short", "a b", "a b\n"},
		{"empty", "", "\n"},
		{"breaks at a space", "aaaa bbbb cccc", "aaaa bbbb\n  cccc\n"},
		{"exactly the width", "aaaa bbbbb", "aaaa bbbbb\n"},
		{"makes one line of several", " a \n\n \t  b ", "a b\n"},
		{"keeps the spaces of a path", "/a  b/c", "/a  b/c\n"},
		{"breaks at several spaces", "aaaa     bbbb", "aaaa\n  bbbb\n"},
		{"never breaks a word", "a bbbbbbbbbbbbbbbb c", "a\n  bbbbbbbbbbbbbbbb\n  c\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			txt := &Text{Width: 10}
			txt.appendWrapped(0, 2, tt.in)
			if diff := cmp.Diff(tt.want, txt.out.String()); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestWrapUnlimited verifies that lines are not wrapped in output for other programs.
func TestWrapUnlimited(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("word ", 200))
	txt := &Text{}
	txt.appendWrapped(8, 8, long)
	txt.Table([]string{"A", "B"}, [][]string{{long, "x"}})
	if got := strings.Count(txt.out.String(), "\n"); got != 3 {
		t.Errorf("%d lines, want 3", got)
	}
}

// TestCutTable verifies that a line that is too long is truncated, and that a color
// ends with its cell.
func TestCutTable(t *testing.T) {
	header, marks := []string{"NODE", "STATE", "ERROR"}, []Mark{MarkOK, MarkError}
	rows := [][]string{{"a", "well", "-"}, {"b\n", "failed", "no space left"}}
	for _, tt := range []struct {
		name  string
		width int
		color bool
		want  string
		cut   bool
	}{
		{"unlimited", 0, false, "NODE  STATE   ERROR\na     well    -\nb\\n   failed  no space left\n", false},
		{"fits", 27, false, "NODE  STATE   ERROR\na     well    -\nb\\n   failed  no space left\n", false},
		{"cut", 20, false, "NODE  STATE   ERROR\na     well    -\nb\\n   failed  no sp…\n", true},
		{"colours", 20, true, "NODE  STATE   ERROR\na     \x1b[32mwell\x1b[0m    -\nb\\n   \x1b[31mfailed\x1b[0m  no sp…\n", true},
		{"cut within a colour", 9, true, "NODE  ST…\na     \x1b[32mwe…\x1b[0m\nb\\n   \x1b[31mfa…\x1b[0m\n", true},
		{"cut before it", 5, true, "NODE…\na   …\nb\\n …\n", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := &Text{Width: tt.width, Color: tt.color}
			cut := text.TruncatedTable(header, rows, 1, marks)
			if got := text.out.String(); got != tt.want || cut != tt.cut {
				t.Errorf("cut %v, got\n%q\nwant\n%q", cut, got, tt.want)
			}
		})
	}
}

func TestTable(t *testing.T) {
	header := []string{"#", "USER", "FOR"}
	tests := []struct {
		name  string
		width int
		rows  [][]string
		want  string
	}{
		{
			"fits", 20, [][]string{{"1", "ci", "a.example"}, {"2", "robot", "b"}},
			"#  USER   FOR\n1  ci     a.example\n2  robot  b\n",
		},
		{
			"does not fit", 20, [][]string{{"1", "ci", "registry.example"}},
			"1  user          ci\n   for           registry.example\n",
		},
		{
			"escaped", 20, [][]string{{"1", "c\ni", "a"}, {"2", "b", "b"}},
			"#  USER  FOR\n1  c\\ni  a\n2  b     b\n",
		},
		{
			"escaped, does not fit", 20, [][]string{{"\n1", "ci", "registry.example"}},
			"\\n1  user          ci\n     for           registry.example\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			txt := &Text{Width: tt.width}
			txt.Table(header, tt.rows)
			if diff := cmp.Diff(tt.want, txt.out.String()); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestMarkColors(t *testing.T) {
	for _, m := range []Mark{MarkOK, MarkSkipped, MarkNoMatch, MarkNoCredential, MarkError, MarkWarning, MarkInfo} {
		plain := (&Text{}).paddedMark(m)
		if len(plain) != markWidth || strings.TrimSpace(plain) != string(m) {
			t.Errorf("without colour: %q, want %s in %d columns", plain, m, markWidth)
		}
		colored := (&Text{Color: true}).paddedMark(m)
		if strings.Contains(colored, "\x1b") != (m.colorCode() != "") {
			t.Errorf("with colour: %q", colored)
		}
	}
}

func TestSeverityCounts(t *testing.T) {
	type severity string // of another package
	got := SeverityCounts(map[severity]int{"error": 2, "warning": 1, "info": 3, "skipped": 4, "ok": 5})
	if want := "2 errors, 1 warning, 3 info, 4 skipped, 5 ok"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := SeverityCounts(map[severity]int{"ok": 1, "error": 0}), "1 ok"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFormatDuration(t *testing.T) {
	tests := map[string]string{
		"10m": "10m", "11h30m": "11h30m", "12h": "12h", "90s": "1m30s", "1s": "1s",
		"0s": "0s", "20s": "20s", "20m": "20m", "1h0m5s": "1h0m5s", "-10m": "-10m", "400ms": "400ms", "21.6us": "21.6µs", "-1ms": "-1ms", "1.4s": "1s",
	}
	for in, want := range tests {
		d := must.Get(time.ParseDuration(in))(t)
		if got := FormatDuration(d); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}
