// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package systemd

import "testing"

// internal/service tests the client with a fake server that fails, and upstream/cluster tests
// it with systemd.

// TestDecode verifies that missing properties and properties of the wrong type are decoded as
// zero.
func TestDecode(t *testing.T) {
	if got := decodeUnit(nil); got != (Unit{}) {
		t.Errorf("no properties: %+v", got)
	}
	got := decodeUnit(map[string]any{
		"LoadState": "loaded", "ActiveState": 7, "ExecMainStatus": int32(3), "Job": []any{uint32(12), "/x"},
		"FragmentPath": "/x.service", "Transient": true,
	})
	if want := (Unit{Load: "loaded", ExitStatus: 3, Job: 12, File: "/x.service", Transient: true}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
