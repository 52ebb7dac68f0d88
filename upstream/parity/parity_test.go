// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package parity compares regcred with the kubelet's own packages. Both get the same generated
// inputs. A disagreement fails the test unless docs/project/parity.md lists it. The generators are
// seeded, so a run can be repeated:
//
//	go test ./parity -args -seed=7 -scale=10
package parity

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/adapter"
	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/kubelet"
)

var (
	randomSeed  = flag.Uint64("seed", 1, "seed of the generators")
	caseScale = flag.Float64("scale", 1, "how many times the usual number of cases")
)

func TestMain(m *testing.M) {
	kubelet.DisableLog()
	os.Exit(m.Run())
}

// runCases calls f for n cases, multiplied by -scale. Each call gets a random source that is seeded
// with the number of the case. cases fails the test after ten disagreements.
func runCases(t *testing.T, n int, f func(r *rand.Rand) bool) {
	t.Helper()
	n = int(float64(n) * *caseScale)
	failed := 0
	for i := range n {
		if f(rand.New(rand.NewPCG(*randomSeed, uint64(i)))) {
			continue
		}
		t.Logf("that was case %d of seed %d", i, *randomSeed)
		if failed++; failed == 10 {
			t.Fatal("giving up after 10 disagreements")
		}
	}
	t.Logf("%d cases, seed %d", n, *randomSeed)
}

// newKeyring returns a keyring of providers with the given responses.
func newKeyring(t testing.TB, answers []map[string]corpus.Auth, opts regcred.Options) *regcred.Keyring {
	t.Helper()
	return must.Get(adapter.NewKeyring(answers, opts))(t)
}

func openKeyring(t testing.TB, c *config.Config, opts regcred.Options) *regcred.Keyring {
	t.Helper()
	return must.Get(regcred.New(c, opts))(t)
}

// usernames returns user names, which tests may print.
func usernames(list []corpus.Auth) []string {
	var out []string
	for _, a := range list {
		out = append(out, string(a.Username))
	}
	return out
}

// writeScript creates an executable shell script.
func writeScript(t testing.TB, path, body string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o700))
}
