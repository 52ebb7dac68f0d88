// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"maps"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/config"
)

// gatesFlag is the kubelet's name of the flag.
const gatesFlag = "feature-gates"

// gates are the feature gates that a kubelet's configuration sets, and its flags,
// which win.
// kubelet: cmd/kubelet/app/server.go, mergeKubeletConfigurations and kubeletConfigFlagPrecedence.
func (r *reading) gates(args, files []string) map[string]bool {
	gates := map[string]bool{}
	for _, file := range files {
		var cfg struct {
			FeatureGates map[string]bool `json:"featureGates"`
		}
		if yaml.Unmarshal([]byte(r.file(file)), &cfg) == nil { // else the kubelet does not start
			maps.Copy(gates, cfg.FeatureGates)
		}
	}
	for _, f := range flagsIn(args, gatesFlag) {
		for part := range strings.SplitSeq(f.value, ",") {
			name, value, _ := strings.Cut(part, "=")
			if on, err := strconv.ParseBool(strings.TrimSpace(value)); err == nil {
				gates[strings.TrimSpace(name)] = on
			}
		}
	}
	return gates
}

// Target is the kubelet of the next start; the zero value if its version is not known.
func (s *Setup) Target() config.Target {
	if s.Version.Kubelet == "" {
		return config.Target{}
	}
	return config.Target{KubeletVersion: s.Version.Kubelet, FeatureGates: s.Gates}
}

// GateSet finds where a feature gate of the kubelet's next start is set: in
// --feature-gates, or in its configuration.
func (n Node) GateSet(ctx context.Context, gate string) (list []Given) {
	r := newReading(ctx, n)
	args := r.command(r.find())
	for _, g := range givenIn(args, gatesFlag)[gatesFlag] {
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
