// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package spelling

import (
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"name", "name", 0}, {"", "name", 4}, {"name", "nam", 1}, {"name", "mane", 2}, {"team", "taem", 1}, {"localhost", "localhsot", 1}, {"ab", "ba", 1}, {"abc", "ca", 3}, {"args", "arguments", 5}, {strings.Repeat("x", 65), "x", 64},
	} {
		if got := Distance(tt.a, tt.b); got != tt.want || Distance(tt.b, tt.a) != got {
			t.Errorf("%q, %q: got %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestDescribe(t *testing.T) {
	for _, tt := range [][3]string{
		{"exmaple", "example", "two letters are swapped"}, {"exampl", "example", "a letter is missing"},
		{"exxample", "example", "there is an extra letter"}, {"exomple", "example", "one letter differs"},
		{"example", "example", ""}, {"exmapel", "example", ""},
	} {
		if got := Describe(tt[0], tt[1]); got != tt[2] {
			t.Errorf("%q, %q: got %q, want %q", tt[0], tt[1], got, tt[2])
		}
	}
}
