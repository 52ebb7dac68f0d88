// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package must contains helpers that end a test if a step of its setup fails.
package must

import "testing"

// Do ends the test if err is not nil.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get returns a function that returns v, or ends the test if err is not nil:
//
//	data := must.Get(os.ReadFile(path))(t)
func Get[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
