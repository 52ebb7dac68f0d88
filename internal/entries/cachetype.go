// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import "github.com/regcred/regcred/config"

// SinceCacheType sets a cacheType in tokenAttributes that have none, which only
// kubelet 1.33 accepts. The type is the one that makes later kubelets behave
// the same: a plugin may return the token as password. It copies what it
// changes.
func SinceCacheType(providers []config.Provider) {
	for i := range providers {
		if p := &providers[i]; p.TokenAttributes != nil && p.TokenAttributes.CacheType == "" {
			t := *p.TokenAttributes
			t.CacheType = config.CachePerToken
			p.TokenAttributes = &t
		}
	}
}
