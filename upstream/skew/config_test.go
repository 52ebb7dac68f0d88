// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"testing"

	"github.com/regcred/regcred/upstream/skew/protocol"
)

// TestFixedGate verifies that a kubelet whose token gate is locked or removed is not queried with
// the gate off, because it would not start.
func TestFixedGate(t *testing.T) {
	for _, tt := range []struct {
		gate protocol.Gate
		asks bool
	}{
		{protocol.Gate{Name: protocol.TokenGateName, Default: true}, true},
		{protocol.Gate{Name: protocol.TokenGateName, Default: true, Locked: true}, false},
		{protocol.Gate{Name: protocol.TokenGateName, Gone: true}, false},
	} {
		s := &comparison{oracle: &kubeletProcess{version: "v1.38.0", gates: []protocol.Gate{tt.gate}}}
		if f, err := compareConfigs(true)(s); err != nil || (f != nil) != tt.asks {
			t.Errorf("%+v: asks: %t, %v", tt.gate, f != nil, err)
		}
		if f, err := compareConfigs(false)(s); err != nil || f == nil {
			t.Errorf("%+v: does not ask with the gate on: %v", tt.gate, err)
		}
	}
}
