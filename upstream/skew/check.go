// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// sides pairs a kubelet with regcred.
type sides struct {
	ctx    context.Context
	oracle *oracle
	dir    string // for files
}

// check is one kind of comparison.
type check struct {
	name string
	n    int
	// prepare returns a function that generates an input, queries both sides, and returns
	// a verdict: agreed, a named difference, or an example.
	prepare func(*sides) (compare, error)
}

type compare func(s *sides, r *rand.Rand) (verdict, error)

// verdict is the result of one comparison.
type verdict struct {
	differs bool
	name    string // of the difference
	example string
}

// agreed is the verdict if both sides agree.
var agreed verdict

// differ returns a verdict with the name of a difference. If the name is "", the example
// is reported.
func differ(name, format string, args ...any) verdict {
	v := verdict{differs: true, name: name}
	if name == "" {
		v.example = fmt.Sprintf(format, args...)
	}
	return v
}

// checks lists all checks with their default number of inputs.
var checks = []check{
	{"configurations", 20_000, configs(false)},
	{"configurations, token gate off", 20_000, configs(true)},
	{"matches", 200_000, matches},
	{"references", 20_000, references},
	{"requests", 20_000, requests},
	{"responses", 20_000, responses},
	{"keyrings", 20_000, keyrings},
	{"pull secrets", 20_000, pullSecrets},
	{"cache keys", 20_000, cacheKeys},
}

// check runs as many comparisons as the options request.
func (s *sides) check(c check, opts options) (tally, error) {
	t := tally{Kind: c.name}
	f, err := c.prepare(s)
	if err != nil || f == nil {
		return t, err
	}
	for i := range max(1, int(float64(c.n)*opts.scale)) {
		v, err := f(s, rand.New(rand.NewPCG(opts.seed, uint64(i))))
		if err != nil {
			return t, fmt.Errorf("%s, number %d of seed %d: %w", c.name, i, opts.seed, err)
		}
		if v.differs {
			t.differs(v.name, fmt.Sprintf("number %d: %s", i, v.example))
		}
		t.Comparisons++
	}
	return t, s.ctx.Err()
}
