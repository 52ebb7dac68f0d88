// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package controller

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/regcred/regcred/internal/canary"
)

// TestWithoutValues verifies that an API server's message is cut before a value. The value of an
// invalid field can be the whole Secret.
func TestWithoutValues(t *testing.T) {
	got := withoutValues(`Secret "x" is invalid: type: Invalid value: "` + canary.PasswordSecret + `": field is immutable`)
	canary.AssertAbsent(t, "the message", got)
	if want := `Secret "x" is invalid: type: invalid value`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := withoutValues("denied"); got != "denied" {
		t.Error(got)
	}
}

// recorder counts events.
type recorder struct{ notes []string }

func (r *recorder) Eventf(_, _ runtime.Object, _, reason, _, note string, args ...any) {
	r.notes = append(r.notes, reason+" "+fmt.Sprintf(note, args...))
}

func TestEventLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		l := &eventLog{recorder: r}
		x, y := request("n", "x"), request("n", "y")
		warn := func(want bool, reason, text string) {
			t.Helper()
			if got := l.warn(x, nil, reason, text); got != want {
				t.Errorf("after %d events, %s %s: %v", len(r.notes), reason, text, got)
			}
		}
		warn(true, "A", "one")
		warn(false, "A", "one")
		warn(false, "A", "two") // less than a minute later
		warn(true, "B", "one")
		if !l.warn(y, nil, "B", "one") {
			t.Error("another Secret's event is missing")
		}
		time.Sleep(2 * time.Minute)
		warn(false, "B", "one")
		warn(true, "B", "two")
		time.Sleep(eventInterval)
		warn(true, "B", "two")
		l.clear(x)
		warn(true, "B", "two")
		if len(r.notes) != 6 {
			t.Errorf("%q", r.notes)
		}
	})
}
