// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package protocol

import "testing"

// TestFieldsOutOfTree checks the fields of the out-of-tree proposal.
func TestFieldsOutOfTree(t *testing.T) {
	want := map[string][]Field{
		KindRequest: {{"image", TypeString, false, "Image"}},
		KindResponse: {
			{"expirationTimestamp", TypeTime, true, "CacheDuration"}, {"username", TypeString, false, "Auth"}, {"password", TypeString, false, "Auth"},
		},
	}
	for kind, fields := range want {
		got := Fields(kind, VersionOutOfTree)
		if len(got) < len(fields) {
			t.Fatalf("%s: %v", kind, got)
		}
		for i, field := range got[len(got)-len(fields):] {
			if field != fields[i] {
				t.Errorf("%s: got %+v, want %+v", kind, field, fields[i])
			}
		}
	}
	if got := KindForVersion(VersionOutOfTree, KindRequest); got != KindOutOfTreeRequest {
		t.Errorf("the kind of a request is %s", got)
	}
	if got := KindForVersion(VersionOutOfTree, KindResponse); got != KindOutOfTreeResponse {
		t.Errorf("the kind of a response is %s", got)
	}
}
