// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package testneed skips a test for want of something that this machine does
// not have, unless whoever runs the tests says that it has.
package testneed

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Lacks ends the test, for want of what a name stands for in
// REGCRED_TEST_REQUIRE, a list with commas: it fails if the list names it, so
// that no case is skipped where all is installed, and is skipped otherwise.
func Lacks(t testing.TB, name, format string, args ...any) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("REGCRED_TEST_REQUIRE"), ","), name) {
		t.Fatalf("REGCRED_TEST_REQUIRE names "+name+", but "+format, args...)
	}
	t.Skipf(format, args...)
}
