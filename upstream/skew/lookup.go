// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/generate"
	"github.com/regcred/regcred/upstream/ours"
	"github.com/regcred/regcred/upstream/vector"
)

func keyrings(*sides) (compare, error) {
	return func(s *sides, r *rand.Rand) (verdict, error) {
		repo := generate.Pick(r, generate.Repositories)
		c := corpus.Keyring{Image: repo}
		for _, a := range generate.Answers(r, repo) {
			c.Answers = append(c.Answers, validKeys(a))
		}
		want, err := about[vector.Keyring](s.oracle, "keyring", c, false)
		if err != nil {
			return agreed, err
		}
		got, err := lookup(s.ctx, c.Answers, regcred.Request{Image: repo})
		if err != nil || slices.Equal(got, want.Credentials) {
			return agreed, err
		}
		return differ("", "image %q: %q; the kubelet's %q", repo, users(got), users(want.Credentials)), nil
	}, nil
}

// validKeys drops keys that a JSON response cannot contain.
func validKeys(answer map[string]corpus.Auth) map[string]corpus.Auth {
	out := map[string]corpus.Auth{}
	for k, v := range answer {
		if strings.ToValidUTF8(k, "") == k {
			out[k] = v
		}
	}
	return out
}

// lookup returns the credentials that regcred finds if providers return these responses.
func lookup(ctx context.Context, answers []map[string]corpus.Auth, req regcred.Request) ([]corpus.Auth, error) {
	k, err := ours.Keyring(answers, regcred.Options{})
	if err != nil {
		return nil, err
	}
	defer k.Close()
	res, err := k.Lookup(ctx, req)
	if err != nil {
		return nil, err
	}
	return ours.Auths(res), nil
}

// users returns the user names, which are not secret.
func users(list []corpus.Auth) (out []string) {
	for _, a := range list {
		out = append(out, string(a.Username))
	}
	return out
}

func pullSecrets(s *sides) (compare, error) {
	find := func(c corpus.Secret) ([]corpus.Auth, error) {
		return lookup(s.ctx, nil, regcred.Request{Image: "registry.io/app", PullSecrets: []regcred.PullSecret{{Type: c.Type, Data: map[string][]byte{c.Key: []byte(c.Data)}}}})
	}
	list := slices.DeleteFunc(corpus.Secrets(), func(s corpus.Secret) bool { return len(s.Data) > 2000 })
	broken := map[corpus.Text]bool{}
	for _, c := range list {
		_, err := find(c)
		broken[c.Data] = broken[c.Data] || err != nil
	}
	return func(s *sides, r *rand.Rand) (verdict, error) {
		c := generate.PullSecrets(r, list, func(s corpus.Secret) bool { return broken[s.Data] })[0]
		if generate.Collide(c) {
			return agreed, nil // in random order
		}
		want, err := about[vector.DockerConfig](s.oracle, "dockerconfig", c, false)
		if err != nil {
			return agreed, err
		}
		got, err := find(c)
		if _, failed := errors.AsType[*regcred.LookupError](err); err != nil && !failed {
			return agreed, err
		}
		if (err != nil) == want.Error && (err != nil || slices.Equal(got, want.Lookups[0].Credentials)) {
			return agreed, nil
		}
		return differ("", "%s of type %q, %d bytes: %q, error %v; the kubelet: refused %t, %v", c.Key, c.Type, len(c.Data), users(got), err, want.Error, want.Lookups), nil
	}, nil
}

func cacheKeys(*sides) (compare, error) {
	return func(s *sides, r *rand.Rand) (verdict, error) {
		c := corpus.Identities{CacheType: generate.Pick(r, []string{"ServiceAccount", "Token"})}
		c.A = generate.Identity(r)
		c.B = generate.Vary(r, c.A)
		want, err := about[vector.CacheKey](s.oracle, "cachekey", c, false)
		if err != nil {
			return agreed, err
		}
		ok, what, err := sameKeys(s.ctx, c, want)
		if ok || err != nil {
			return agreed, err
		}
		// As if only the service account mattered.
		name := ""
		c.CacheType = "ServiceAccount"
		if ok, _, err := sameKeys(s.ctx, c, want); ok && err == nil {
			name = of(noCacheType, s.oracle.minor)
		}
		return differ(name, "%s", what), nil
	}, nil
}

// sameKeys looks up credentials for two identities in regcred and compares whether they
// share a cache key with the vector.
func sameKeys(ctx context.Context, c corpus.Identities, want vector.CacheKey) (ok bool, what string, err error) {
	a, b, err := ours.LookUpTwice(ctx, c.CacheType, c.A, c.B)
	if err != nil {
		return false, "", err
	}
	hit := b.Cache == regcred.CacheHit
	if (a.Err != nil) == want.ErrorA && (b.Err != nil) == want.ErrorB && hit == want.Same {
		return true, "", nil
	}
	return false, fmt.Sprintf("%s: errors %v and %v, from the cache %t; the kubelet's errors %t and %t, same key %t",
		c.CacheType, a.Err, b.Err, hit, want.ErrorA, want.ErrorB, want.Same), nil
}
