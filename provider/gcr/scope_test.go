// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr_test

import (
	"testing"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/provider/gcr"
)

// TestCacheKeyIsNotTooWide verifies that a cache key type in the options is narrowed to the scope
// of the response. Otherwise the kubelet would use the response for images outside the mirrored
// path, or for registries that have no key in it.
func TestCacheKeyIsNotTooWide(t *testing.T) {
	team := gcr.Options{Mirrors: []string{"quay.io/team=gcr.io/p"}, MirrorOrigin: "none"}
	docker := gcr.Options{Mirrors: []string{"docker.io=gcr.io/p"}, MirrorOrigin: "none"}
	for name, tt := range map[string]struct {
		opts      gcr.Options
		image     string
		set, want plugin.CacheKeyType
	}{
		"a part of a host, registry": {team, "quay.io/team/app", plugin.CacheRegistry, plugin.CacheImage},
		"a part of a host, global":   {team, "quay.io/team/app", plugin.CacheGlobal, plugin.CacheImage},
		"beside a part, global":      {team, "gcr.io/p/app", plugin.CacheGlobal, plugin.CacheRegistry},
		"a host, global":             {docker, "docker.io/library/app", plugin.CacheGlobal, plugin.CacheRegistry},
		"a host, image":              {docker, "docker.io/library/app", plugin.CacheImage, plugin.CacheImage},
		"any host, global":           {gcr.Options{AnyHost: true}, "a.example/app", plugin.CacheGlobal, plugin.CacheRegistry},
		"allowed host, global":       {gcr.Options{AllowHosts: []string{"a.example"}}, "gcr.io/p/app", plugin.CacheGlobal, plugin.CacheRegistry},
		"Google's alone, global":     {gcr.Options{}, "gcr.io/p/app", plugin.CacheGlobal, plugin.CacheGlobal},
	} {
		t.Run(name, func(t *testing.T) {
			tt.opts.CacheKeyType = tt.set
			resp := must.Get(newTestCloud(t).newProvider(t, tt.opts).GetCredentials(t.Context(), &plugin.Request{Image: tt.image}))(t)
			if resp.CacheKeyType != tt.want {
				t.Errorf("set to %s, the response is for %s, want %s", tt.set, resp.CacheKeyType, tt.want)
			}
		})
	}
}
