// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testenv

import "testing"

// FreeAddr returns an address on 127.0.0.1 where no server listens. A test may listen
// there repeatedly. On Linux the port is reserved until the test ends.
func FreeAddr(t testing.TB) (host string) {
	t.Helper()
	host, err := reserveAddr(t)
	if err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	return host
}
