// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package must_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// recorder is a testing.TB that records calls to Fatal. Fatal ends the goroutine, as in a test.
type recorder struct {
	testing.TB
	failed []any
}

func (r *recorder) Helper() {}

func (r *recorder) Fatal(args ...any) {
	r.failed = args
	runtime.Goexit()
}

// TestFatal verifies that an error ends the test and is passed to Fatal, and that nil does not
// end the test.
func TestFatal(t *testing.T) {
	err := errors.New("failed")
	for name, tt := range map[string]struct {
		run  func(testing.TB)
		want any
	}{
		"Do":          {func(t testing.TB) { must.Do(t, err) }, err},
		"Do without":  {func(t testing.TB) { must.Do(t, nil) }, nil},
		"Get":         {func(t testing.TB) { must.Get(0, err)(t) }, err},
		"Get without": {func(t testing.TB) { must.Get(0, nil)(t) }, nil},
	} {
		r, returned := &recorder{}, false
		done := make(chan struct{})
		go func() {
			defer close(done)
			tt.run(r)
			returned = true
		}()
		<-done
		if returned != (tt.want == nil) || tt.want != nil && (len(r.failed) != 1 || r.failed[0] != tt.want) {
			t.Errorf("%s: returned %t, Fatal%v", name, returned, r.failed)
		}
	}
	if got := must.Get("value", nil)(t); got != "value" {
		t.Errorf("got %q", got)
	}
}
