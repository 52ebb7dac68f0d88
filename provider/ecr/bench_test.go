// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr_test

import (
	"testing"

	"github.com/regcred/regcred/provider/ecr"
)

// BenchmarkGetCredentials measures a response with static keys from the environment. Run: go test -run '^$'
// -bench . -benchmem ./provider/ecr
func BenchmarkGetCredentials(b *testing.B) {
	newCloud(b, staticKeysEnv()...)
	p := newProvider(b, ecr.Options{})
	for b.Loop() {
		if _, err := p.GetCredentials(b.Context(), imageRequest(privateHost)); err != nil {
			b.Fatal(err)
		}
	}
}
