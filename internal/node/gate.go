// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"regexp"
	"strings"
)

// GateSet finds where a feature gate of the kubelet's next start is set: in
// --feature-gates, or in its configuration.
func (n Node) GateSet(ctx context.Context, gate string) (list []Given) {
	r := newReading(ctx, n)
	args := r.command(r.find())
	for _, g := range givenIn(args, "feature-gates")["feature-gates"] {
		for _, part := range strings.Split(g.Value, ",") {
			if name, _, _ := strings.Cut(part, "="); strings.TrimSpace(name) == gate {
				list = append(list, Given{File: n.host(g.File), Line: g.Line, By: g.By})
			}
		}
	}
	// A gate is a key wherever it stands, and the name of nothing else.
	key := regexp.MustCompile(`^[^#]*\b` + regexp.QuoteMeta(gate) + `["']?\s*:`)
	for _, file := range r.kubeletConfigs(kubeletFlags(texts(args), healthFlags()...), nil) {
		for i, line := range physicalLines(r.file(file)) {
			if key.MatchString(line) {
				list = append(list, Given{File: n.host(file), Line: i + 1})
			}
		}
	}
	return list
}
