// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// comparison compares a kubelet with regcred.
type comparison struct {
	ctx    context.Context
	oracle *kubeletProcess
	dir    string // directory for temporary files
}

// comparisonKind is a kind of comparison, such as "matches".
type comparisonKind struct {
	name string
	n    int
	// prepare returns a function that generates an input, passes it to the kubelet and to regcred,
	// and returns a verdict. It returns nil if the kubelet cannot be compared.
	prepare func(*comparison) (compareFunc, error)
}

type compareFunc func(s *comparison, r *rand.Rand) (verdict, error)

// verdict is the result of comparing one input.
type verdict struct {
	differs bool
	name    string // name of a known difference, or ""
	example string
}

// verdictAgreed is the verdict if the kubelet and regcred agree.
var verdictAgreed verdict

// newDifference returns the verdict for a difference. If the difference has no name, the verdict
// contains an example, which is reported.
func newDifference(name, format string, args ...any) verdict {
	v := verdict{differs: true, name: name}
	if name == "" {
		v.example = fmt.Sprintf(format, args...)
	}
	return v
}

// comparisonKinds lists all kinds of comparisons with their default number of inputs.
var comparisonKinds = []comparisonKind{
	{"configurations", 20_000, compareConfigs(false)},
	{"configurations, token gate off", 20_000, compareConfigs(true)},
	{"matches", 200_000, compareMatches},
	{"references", 20_000, compareReferences},
	{"requests", 20_000, compareRequests},
	{"responses", 20_000, compareResponses},
	{"keyrings", 20_000, compareKeyrings},
	{"pull secrets", 20_000, comparePullSecrets},
	{"cache keys", 20_000, compareCacheKeys},
}

// runComparisons runs as many comparisons as the options request.
func (s *comparison) runComparisons(c comparisonKind, opts options) (comparisonCounts, error) {
	t := comparisonCounts{Kind: c.name}
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
			t.countDifference(v.name, fmt.Sprintf("number %d: %s", i, v.example))
		}
		t.Comparisons++
	}
	return t, s.ctx.Err()
}
