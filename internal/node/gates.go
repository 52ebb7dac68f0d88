// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/regcred/regcred/config"
)

const gatesFlag = "feature-gates"

// gatesOf returns the feature gates that the kubelet's configuration and flags set.
// Flags override the configuration.
// kubelet: cmd/kubelet/app/server.go, kubeletConfigFlagPrecedence.
func gatesOf(args []string, read kubeletConfig) map[string]bool {
	gates := map[string]bool{}
	if cfg, err := read.decode(); err == nil { // otherwise the kubelet does not start
		maps.Copy(gates, cfg.FeatureGates)
	}
	for _, f := range flagsIn(args, gatesFlag) {
		_ = SetGates(gates, f.value) // if it fails, the kubelet does not start
	}
	return gates
}

// SetGates adds the feature gates of a --feature-gates flag. It adds the valid ones
// even if it returns an error.
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

// GateCounts reports whether a feature gate affects how the kubelet treats a provider
// configuration. Gates whose case is wrong count, because the kubelet rejects them.
func GateCounts(name string) bool {
	return slices.ContainsFunc(config.FeatureGates(), func(gate string) bool { return strings.EqualFold(gate, name) })
}

// Target returns version and feature gates of the kubelet's next start. It is
// zero if the version is unknown.
func (s *Setup) Target() config.Target {
	if s.Version.Kubelet == "" {
		return config.Target{}
	}
	return config.Target{KubeletVersion: s.Version.Kubelet, FeatureGates: s.Gates}
}
