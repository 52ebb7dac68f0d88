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
		{"", "", 0}, {"name", "name", 0}, {"", "name", 4}, {"name", "nam", 1}, {"name", "mane", 2}, {"args", "arguments", 5}, {strings.Repeat("x", 65), "x", 64},
	} {
		if got := Distance(tt.a, tt.b); got != tt.want || Distance(tt.b, tt.a) != got {
			t.Errorf("%q, %q: got %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
