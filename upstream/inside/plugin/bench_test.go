// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/regcred/regcred/upstream/inside/plugin"
	"github.com/regcred/regcred/upstream/kubelet"
)

// BenchmarkLookup measures the lookup of a cached response in both packages. The configuration
// files are old enough to be trusted.
func BenchmarkLookup(b *testing.B) {
	for _, providers := range []int{1, 20} {
		list := []provider{{cacheDuration: "1h"}}
		for i := range providers - 1 {
			name := fmt.Sprintf("other-%d", i)
			list = append(list, provider{name: name, match: "[" + name + ".example, '*." + name + ".example']"})
		}
		at := newPluginDir(b, list...)
		for _, s := range implementations {
			if err := s.register(at.path, at.dir, kubelet.TokenFuncs{}); err != nil {
				b.Fatal(err)
			}
			if s.name == ours.name {
				plugin.ShiftClock(time.Hour)
			}
			b.Run(fmt.Sprintf("%s/%d", s.name, providers), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if creds, ok := s.keyring("", "", "", "").Lookup("registry.example/app"); !ok || len(creds) != 1 {
						b.Fatalf("%d credentials, want 1", len(creds))
					}
				}
			})
		}
	}
}
