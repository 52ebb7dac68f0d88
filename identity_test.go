// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/plugin"
)

func TestAttemptIdentity(t *testing.T) {
	const audience, role = "registry.example", "example.com/role"
	account := ObjectRef{Namespace: "ns", Name: "alice", UID: "uid-alice"}
	pod := podRequest("r.example/a", "alice", 1)
	held := Request{Image: "r.example/a", Token: canary.Token, Annotations: map[string]string{role: "x"}}
	tests := []struct {
		name     string
		requests []Request // the last one counts
		cache    TokenCacheType
		required []string
		api      ServiceAccounts
		want     *Identity
	}{
		{"token requested", []Request{pod}, CachePerServiceAccount, nil, &accounts{},
			&Identity{account, audience, []string{role}, []string{"example.com/absent"}, "", TokenRequested}},
		{"answer from the cache", []Request{pod, podRequest("r.example/b", "alice", 2)}, CachePerServiceAccount, nil, &accounts{},
			&Identity{account, audience, []string{role}, []string{"example.com/absent"}, "", TokenNone}},
		{"a token for every pod", []Request{pod, pod}, CachePerToken, nil, &accounts{},
			&Identity{account, audience, []string{role}, []string{"example.com/absent"}, "", TokenRequested}},
		{"token given", []Request{held}, CachePerServiceAccount, nil, nil,
			&Identity{ObjectRef{}, audience, []string{role}, []string{"example.com/absent"}, "", TokenGiven}},
		{"required annotation missing", []Request{pod}, CachePerServiceAccount, []string{"example.com/needed"}, &accounts{},
			&Identity{account, audience, nil, nil, "example.com/needed", TokenNone}},
		{"account not found", []Request{pod}, CachePerServiceAccount, nil, &accounts{err: errors.New("not found")},
			&Identity{ObjectRef{Namespace: "ns", Name: "alice"}, audience, nil, nil, "", TokenNone}},
		{"nobody", []Request{{Image: "r.example/a"}}, CachePerServiceAccount, nil, &accounts{}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			attributes := perAccount(tt.cache)
			attributes.ServiceAccountTokenAudience = audience
			attributes.RequiredServiceAccountAnnotationKeys = tt.required
			attributes.OptionalServiceAccountAnnotationKeys = []string{role, "example.com/absent"}
			k := newScripted(t, &script{answer: respond(plugin.CacheRegistry, time.Hour, "")}, attributes, tt.api)
			defer k.Close()
			var res *Result
			for _, req := range tt.requests {
				res, _ = k.Lookup(context.Background(), req)
			}
			if diff := cmp.Diff(tt.want, res.Attempts[0].Identity); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
