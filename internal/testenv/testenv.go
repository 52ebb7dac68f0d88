// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package testenv provides what tests need from the machine: a free address, a
// file system that hangs, or an optional tool.
package testenv

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// SkipWithout skips the test, because this machine does not have the named tool
// or service. If the list in REGCRED_TEST_REQUIRE, separated by commas, has the
// name, the test fails instead.
func SkipWithout(t testing.TB, name, format string, args ...any) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("REGCRED_TEST_REQUIRE"), ","), name) {
		t.Fatalf("REGCRED_TEST_REQUIRE names "+name+", but "+format, args...)
	}
	t.Skipf(format, args...)
}
