// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package parity

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/upstream/adapter"
	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/generate"
	"github.com/regcred/regcred/upstream/kubelet"
)

func TestCacheKey(t *testing.T) {
	same, failed := 0, 0
	runCases(t, 20_000, func(r *rand.Rand) bool {
		cacheType := generate.PickElement(r, []string{"ServiceAccount", "Token"})
		a := generate.RandomIdentity(r)
		b := generate.VaryIdentity(r, a)
		keyA, errA := kubelet.CacheKey(cacheType, a)
		keyB, errB := kubelet.CacheKey(cacheType, b)
		first, second, err := adapter.LookUpTwice(t.Context(), cacheType, a, b)
		if err != nil {
			t.Fatal(err)
		}
		want := errA == nil && errB == nil && keyA == keyB
		if want {
			same++
		}
		if errA != nil || errB != nil {
			failed++
		}
		if (first.Err != nil) != (errA != nil) || (second.Err != nil) != (errB != nil) || (second.Cache == regcred.CacheHit) != want {
			t.Errorf("%s, %s and %s: errors %v and %v, served from the cache %t; the kubelet's errors %v and %v, same key %t",
				cacheType, formatIdentity(a), formatIdentity(b), first.Err, second.Err, second.Cache == regcred.CacheHit, errA, errB, want)
			return false
		}
		return true
	})
	t.Logf("%d pairs share a key, %d had none", same, failed)
	if same < 100 || failed < 100 {
		t.Error("the generator no longer makes both kinds")
	}
}

// formatIdentity formats an identity for an error. It shortens long values and omits the token's
// secret.
func formatIdentity(id corpus.Identity) string {
	id.Token = id.Token[len("canary-token-4b1d"):]
	out, _ := json.Marshal(id)
	if len(out) > 300 {
		out = out[:300]
	}
	return string(out)
}
