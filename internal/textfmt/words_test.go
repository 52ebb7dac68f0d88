// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package textfmt

import (
	"errors"
	"fmt"
	"testing"
)

func TestCount(t *testing.T) {
	for want, in := range map[string]struct {
		n    int
		noun string
	}{
		"1 credential": {1, "credential"}, "0 credentials": {0, "credential"}, "2 entries": {2, "entry"},
	} {
		if got := FormatCount(in.n, in.noun); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestFlattenErrors(t *testing.T) {
	err := errors.Join(errors.New("a"), errors.Join(errors.New("b"), fmt.Errorf("c: %w", errors.New("d"))))
	if got := fmt.Sprint(FlattenErrors(err), FlattenErrors(nil)); got != "[a b c: d] []" {
		t.Errorf("got %s", got)
	}
}
