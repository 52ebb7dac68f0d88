// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package testaddr finds an address for a program that cannot be asked which port
// it has been given, and for a server that is not there.
package testaddr

import "testing"

// Free is an address of 127.0.0.1 at which nobody answers. Whoever is told may listen
// there, also again and again; on Linux nobody else is given its port until the test
// ends.
func Free(t testing.TB) (host string) {
	t.Helper()
	host, err := reserve(t)
	if err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	return host
}
