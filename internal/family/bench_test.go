// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package family

import (
	"testing"

	"github.com/regcred/regcred/match"
)

func BenchmarkCheck(b *testing.B) {
	for _, s := range []string{"*.dkr.ecr.*.amazonaws.com", "*.dkr.ecr.amazonaws.com", "registry.example"} {
		at, err := match.ParseLocation(s)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(s, func(b *testing.B) {
			for b.Loop() {
				Check(at)
			}
		})
	}
}
