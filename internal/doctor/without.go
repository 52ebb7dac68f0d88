// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import "github.com/regcred/regcred/internal/node"

// without tells of a node whose kubelet has no credential providers, which is a way to
// run one. On a machine that is no node there is nothing to check.
func (r *Report) without(w *node.Without) {
	result := Info
	if !w.IsNode() {
		result = Fail
	}
	r.Checks = append(r.Checks, Check{Check: "config", Result: result, Message: w.Message, Fix: w.Fix, Without: w})
}
