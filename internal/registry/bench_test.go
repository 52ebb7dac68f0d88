// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registry

import (
	"testing"
)

func BenchmarkCheck(b *testing.B) {
	for _, s := range []string{"*.dkr.ecr.*.amazonaws.com", "*.dkr.ecr.amazonaws.com", "registry.example"} {
		b.Run(s, func(b *testing.B) {
			for b.Loop() {
				checkForm(s)
			}
		})
	}
}
