// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package adapter

import (
	"maps"
	"slices"

	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/kubelet"
)

// EncodeRequest returns the bytes that regcred writes to a plugin.
func EncodeRequest(r corpus.Request) ([]byte, error) {
	return plugin.EncodeRequest(&plugin.Request{
		APIVersion: r.APIVersion, Image: string(r.Image), ServiceAccountToken: plugin.NewSecret(r.Token), ServiceAccountAnnotations: r.Annotations,
	})
}

// ConvertResponse converts a response to kubelet.Response.
func ConvertResponse(r *plugin.Response) *kubelet.Response {
	if r == nil {
		return nil
	}
	out := &kubelet.Response{CacheKeyType: corpus.RawString(r.CacheKeyType), CacheDuration: r.CacheDuration}
	for _, k := range slices.Sorted(maps.Keys(r.Auth)) {
		out.Auth = append(out.Auth, kubelet.AuthEntry{Key: corpus.RawString(k), Username: corpus.RawString(r.Auth[k].Username), Password: corpus.RawString(r.Auth[k].Password.Reveal())})
	}
	return out
}
