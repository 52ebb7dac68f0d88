// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package testenv provides what tests need from the machine: a free address, a hanging
// file system, or an optional tool.
package testenv

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// SkipUnlessAvailable skips the test because the named tool or service is not available on this
// machine. If the name is in the comma-separated list REGCRED_TEST_REQUIRE, the test
// fails instead.
func SkipUnlessAvailable(t testing.TB, name, format string, args ...any) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("REGCRED_TEST_REQUIRE"), ","), name) {
		t.Fatalf("REGCRED_TEST_REQUIRE names "+name+", but "+format, args...)
	}
	t.Skipf(format, args...)
}
