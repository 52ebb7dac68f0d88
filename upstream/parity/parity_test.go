// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package parity compares regcred with the kubelet's own packages: generated
// inputs go to both, and every disagreement that docs/parity.md does not list
// fails the test. The generators are seeded, so a run can be repeated:
//
//	go test ./parity -args -seed=7 -scale=10
package parity

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/kubelet"
)

var (
	seed  = flag.Uint64("seed", 1, "seed of the generators")
	scale = flag.Float64("scale", 1, "how many times the usual number of cases")
)

func TestMain(m *testing.M) {
	kubelet.Silence()
	os.Exit(m.Run())
}

// cases runs f on n cases (times -scale), each with the random source of its
// own number, and stops after ten failed ones.
func cases(t *testing.T, n int, f func(r *rand.Rand) bool) {
	t.Helper()
	n = int(float64(n) * *scale)
	failed := 0
	for i := range n {
		if f(rand.New(rand.NewPCG(*seed, uint64(i)))) {
			continue
		}
		t.Logf("that was case %d of seed %d", i, *seed)
		if failed++; failed == 10 {
			t.Fatal("giving up after 10 disagreements")
		}
	}
	t.Logf("%d cases, seed %d", n, *seed)
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// one reports true once in n times.
func one(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

// mutate changes a few bytes of s: it deletes, doubles, swaps and replaces.
// words are inserted beside single bytes, so that syntax is met.
func mutate(r *rand.Rand, s string, words []string) string {
	b := []byte(s)
	for range 1 + r.IntN(3) {
		at := r.IntN(len(b) + 1)
		to := min(len(b), at+r.IntN(8))
		switch r.IntN(6) {
		case 0:
			b = slices.Delete(b, at, to)
		case 1:
			b = slices.Insert(b, at, slices.Clone(b[at:to])...)
		case 2:
			b = slices.Insert(b, at, []byte(pick(r, words))...)
		case 3:
			b = slices.Insert(b, at, byte(r.IntN(256)))
		case 4:
			if at < len(b) {
				b[at] ^= 0x20 // upper case and lower case
			}
		case 5:
			from := r.IntN(len(b) + 1)
			b = slices.Insert(b, at, slices.Clone(b[from:min(len(b), from+r.IntN(40))])...)
		}
	}
	return string(b)
}

// everything matches every repository that the tests look up.
var everything = []string{"*", "*.*", "*.*.*", "*.*.*.*", "*:5000", "*.*:5000", "*.*.*:5000", "*:443", "*.*:443"}

// keyring makes a keyring of providers that answer as given.
func keyring(t testing.TB, answers []map[string]corpus.Auth, opts regcred.Options) *regcred.Keyring {
	t.Helper()
	c := &config.Config{}
	opts.BinDir = os.TempDir()
	opts.InProcess = map[string]plugin.Provider{}
	for i, a := range answers {
		name := fmt.Sprintf("p%d", i)
		c.Providers = append(c.Providers, config.Provider{
			Name: name, APIVersion: plugin.V1, DefaultCacheDuration: new(time.Hour), MatchImages: everything,
		})
		opts.InProcess[name] = answering(a)
	}
	return open(t, c, opts)
}

func open(t testing.TB, c *config.Config, opts regcred.Options) *regcred.Keyring {
	t.Helper()
	k, err := regcred.New(c, opts)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// answering is a provider that gives one answer, for the image asked about.
func answering(m map[string]corpus.Auth) plugin.Provider {
	resp := &plugin.Response{CacheKeyType: plugin.CacheImage, Auth: map[string]plugin.AuthConfig{}}
	for k, a := range m {
		resp.Auth[k] = plugin.AuthConfig{Username: string(a.Username), Password: plugin.NewSecret(string(a.Password))}
	}
	return plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) { return resp, nil })
}

// auths returns user names and passwords alone.
func auths(res *regcred.Result) []corpus.Auth {
	out := []corpus.Auth{}
	for _, c := range res.Credentials {
		out = append(out, corpus.Auth{Username: corpus.Text(c.Username), Password: corpus.Text(c.Password.Reveal())})
	}
	return out
}

// users returns user names, which tests may print.
func users(list []corpus.Auth) []string {
	var out []string
	for _, a := range list {
		out = append(out, string(a.Username))
	}
	return out
}

// writeScript makes an executable shell script.
func writeScript(t testing.TB, path, body string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o700); err != nil {
		t.Fatal(err)
	}
}
