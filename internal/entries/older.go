// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import "github.com/regcred/regcred/config"

// SinceCacheType gives tokenAttributes without a cacheType, as only a kubelet of
// 1.33 takes them, the one with which that kubelet's rules are those of later
// ones: it lets a plugin return the token as password. What the tokenAttributes
// were is not changed for who else has them.
func SinceCacheType(providers []config.Provider) {
	for i := range providers {
		if p := &providers[i]; p.TokenAttributes != nil && p.TokenAttributes.CacheType == "" {
			t := *p.TokenAttributes
			t.CacheType = config.CachePerToken
			p.TokenAttributes = &t
		}
	}
}
