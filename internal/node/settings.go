// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"regexp"
	"strings"
)

// EnvVariable returns an environment variable for the kubelet's next start, and where it is set.
// It returns false if no file sets the variable.
func (r *Reader) EnvVariable(ctx context.Context, name string) (FlagOccurrence, bool) {
	v, ok := r.kubeletService(r.newReader(ctx)).vars[name]
	return FlagOccurrence{Value: v.value, File: r.HostPath(v.file), Line: v.line}, ok
}

// FlagOccurrences returns where the command for the kubelet's next start sets a flag, in the
// order in which the kubelet parses the command. The result does not contain the flag's values.
func (r *Reader) FlagOccurrences(ctx context.Context, flag string) (list []FlagOccurrence) {
	flag = strings.ReplaceAll(strings.TrimLeft(flag, "-"), "_", "-")
	rd := r.newReader(ctx)
	for _, g := range findFlags(rd.nextCommandWords(r.kubeletService(rd)), flag)[flag] {
		list = append(list, FlagOccurrence{File: r.HostPath(g.File), Line: g.Line, By: g.By})
	}
	return list
}

// FeatureGateOccurrences returns where flags and configuration files set a feature gate for the kubelet's
// next start.
func (r *Reader) FeatureGateOccurrences(ctx context.Context, gate string) (list []FlagOccurrence) {
	rd := r.newReader(ctx)
	next := r.nextStartConfig(rd)
	for _, g := range findFlags(next.args, featureGatesFlag)[featureGatesFlag] {
		for _, part := range strings.Split(g.Value, ",") {
			if name, _, _ := strings.Cut(part, "="); strings.TrimSpace(name) == gate {
				list = append(list, FlagOccurrence{File: r.HostPath(g.File), Line: g.Line, By: g.By})
			}
		}
	}
	key := regexp.MustCompile(`^[^#]*\b` + regexp.QuoteMeta(gate) + `["']?\s*:`)
	for _, file := range next.configs {
		for i, line := range physicalLines(rd.readFile(file.path)) {
			if key.MatchString(line) {
				list = append(list, FlagOccurrence{File: r.HostPath(file.path), Line: i + 1})
			}
		}
	}
	return list
}
