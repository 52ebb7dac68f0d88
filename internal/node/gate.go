// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/regcred/regcred/config"
)

// gatesFlag is the kubelet's name of the flag.
const gatesFlag = "feature-gates"

// gatesOf are the feature gates that a kubelet's configuration sets, and its flags,
// which win.
// kubelet: cmd/kubelet/app/server.go, kubeletConfigFlagPrecedence.
func gatesOf(args []string, read kubeletConfig) map[string]bool {
	gates := map[string]bool{}
	if cfg, err := read.decode(); err == nil { // else the kubelet does not start
		maps.Copy(gates, cfg.FeatureGates)
	}
	for _, f := range flagsIn(args, gatesFlag) {
		_ = SetGates(gates, f.value) // else the kubelet does not start
	}
	return gates
}

// SetGates adds feature gates as the kubelet's --feature-gates has them. An error
// says what is none; the others are added all the same.
// kubelet: k8s.io/component-base/cli/flag/map_string_bool.go.
func SetGates(gates map[string]bool, value string) (err error) {
	for part := range strings.SplitSeq(value, ",") {
		name, text, _ := strings.Cut(part, "=")
		name = strings.TrimSpace(name)
		on, bad := strconv.ParseBool(strings.TrimSpace(text))
		switch {
		case name != "" && bad == nil:
			gates[name] = on
		case part != "":
			err = cmp.Or(err, fmt.Errorf("%q: want NAME=true or NAME=false", part))
		}
	}
	return err
}

// GateCounts reports whether a verdict on a configuration depends on a feature gate; one
// of another case is refused.
func GateCounts(name string) bool {
	return slices.ContainsFunc(config.FeatureGates(), func(gate string) bool { return strings.EqualFold(gate, name) })
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
	found := r.find()
	args, dirs := r.command(found), []string{}
	if found.program == "k3s" || found.program == "rke2" {
		_, told := r.rancherFlags(found)
		args, dirs = r.rancherArgs(found, told.Files), []string{told.dropIns()}
	}
	for _, g := range givenIn(args, gatesFlag)[gatesFlag] {
		for _, part := range strings.Split(g.Value, ",") {
			if name, _, _ := strings.Cut(part, "="); strings.TrimSpace(name) == gate {
				list = append(list, Given{File: n.host(g.File), Line: g.Line, By: g.By})
			}
		}
	}
	// A gate is a key wherever it stands, and the name of nothing else.
	key := regexp.MustCompile(`^[^#]*\b` + regexp.QuoteMeta(gate) + `["']?\s*:`)
	for _, file := range r.kubeletConfigs(kubeletFlags(texts(args), healthFlags()...), dirs) {
		for i, line := range physicalLines(r.file(file.path)) {
			if key.MatchString(line) {
				list = append(list, Given{File: n.host(file.path), Line: i + 1})
			}
		}
	}
	return list
}
