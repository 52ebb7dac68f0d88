// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

// TestMasked checks that the logs of failing tests show no secrets.
func TestMasked(t *testing.T) {
	got := maskLines([]string{"pulled", "password " + canary.PasswordSecret, "Bearer eyJhbGciOiJSUzI1NiJ9.e30.c2ln, and more"})
	want := "pulled\n(a line with a secret)\nBearer (a token), and more\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPollUntil(t *testing.T) {
	wrong := errors.New("not yet")
	for _, tt := range []struct {
		name    string
		answers []error // results of the calls; the last one repeats
		want    error
		asked   int // minimum number of calls
	}{
		{"at once", []error{nil}, nil, 1},
		{"later", []error{wrong, nil}, nil, 2},
		{"never", []error{wrong}, wrong, 2},
		{"no use", []error{stopError{wrong}}, stopError{wrong}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked := 0
			err := pollUntil(t.Context(), 150*time.Millisecond, func(context.Context) error {
				asked++
				return tt.answers[min(asked, len(tt.answers))-1]
			})
			if err != tt.want || asked < tt.asked {
				t.Errorf("got %v after %d questions, want %v after %d", err, asked, tt.want, tt.asked)
			}
		})
	}
}

// TestKubeletLog checks that a log record can have several lines.
func TestKubeletLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubelet.log")
	log := "I1 one\nE2 two err=<\n\tit said\n\tmore\n > provider=\"a\"\nI3 three\n"
	must.Do(t, os.WriteFile(path, []byte(log), 0o600))
	k := &Kubelet{process: &testProcess{log: path}}
	for _, tt := range []struct{ texts, want []string }{
		{nil, []string{"I1 one", "E2 two err=<\n\tit said\n\tmore\n > provider=\"a\"", "I3 three"}},
		{[]string{"two", `provider="a"`}, []string{"E2 two err=<\n\tit said\n\tmore\n > provider=\"a\""}},
		{[]string{"two", "three"}, nil},
	} {
		if diff := cmp.Diff(tt.want, k.LogRecords(t, tt.texts...), cmp.Transformer("nil", func(s []string) string { return strings.Join(s, "\x00") })); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.texts, diff)
		}
	}
}
