// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"testing"

	"github.com/regcred/regcred"
)

// TestSimilarAnnotationFix verifies that the fix for a missing annotation names a similar one.
func TestSimilarAnnotationFix(t *testing.T) {
	at := regcred.Attempt{Identity: &regcred.Identity{
		ServiceAccount: regcred.ObjectRef{Namespace: "team", Name: "app"}, Missing: "example.io/addr", Similar: map[string]string{"example.io/addr": "example.io/address"},
	}}
	const want = "the service account has example.io/address: rename it (kubectl annotate serviceaccount --namespace team app example.io/addr=VALUE example.io/address-), or write that key in the configuration"
	if got := AttemptFix(at, true, "c.yaml"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
