// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ours

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

// Response converts a response to kubelet.Response.
func Response(r *plugin.Response) *kubelet.Response {
	if r == nil {
		return nil
	}
	out := &kubelet.Response{CacheKeyType: corpus.Text(r.CacheKeyType), CacheDuration: r.CacheDuration}
	for _, k := range slices.Sorted(maps.Keys(r.Auth)) {
		out.Auth = append(out.Auth, kubelet.Entry{Key: corpus.Text(k), Username: corpus.Text(r.Auth[k].Username), Password: corpus.Text(r.Auth[k].Password.Reveal())})
	}
	return out
}
