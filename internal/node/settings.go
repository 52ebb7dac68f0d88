// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"regexp"
	"strings"
)

// Variable returns a variable of the environment of the kubelet's next start.
// It returns false if no file sets the variable.
func (r *Reading) Variable(ctx context.Context, name string) (Given, bool) {
	v, ok := r.kubeletService(r.reader(ctx)).vars[name]
	return Given{Value: v.value, File: r.Host(v.file), Line: v.line}, ok
}

// Given returns where the command of the kubelet's next start sets a flag, without
// the values, in the order in which the kubelet parses them.
func (r *Reading) Given(ctx context.Context, flag string) (list []Given) {
	flag = strings.ReplaceAll(strings.TrimLeft(flag, "-"), "_", "-")
	rd := r.reader(ctx)
	for _, g := range givenIn(rd.command(r.kubeletService(rd)), flag)[flag] {
		list = append(list, Given{File: r.Host(g.File), Line: g.Line, By: g.By})
	}
	return list
}

// GateSet returns where a feature gate of the kubelet's next start is set: in flags
// and in the kubelet's configuration.
func (r *Reading) GateSet(ctx context.Context, gate string) (list []Given) {
	rd := r.reader(ctx)
	next := r.nextStart(rd)
	for _, g := range givenIn(next.args, gatesFlag)[gatesFlag] {
		for _, part := range strings.Split(g.Value, ",") {
			if name, _, _ := strings.Cut(part, "="); strings.TrimSpace(name) == gate {
				list = append(list, Given{File: r.Host(g.File), Line: g.Line, By: g.By})
			}
		}
	}
	key := regexp.MustCompile(`^[^#]*\b` + regexp.QuoteMeta(gate) + `["']?\s*:`)
	for _, file := range next.configs {
		for i, line := range physicalLines(rd.file(file.path)) {
			if key.MatchString(line) {
				list = append(list, Given{File: r.Host(file.path), Line: i + 1})
			}
		}
	}
	return list
}
