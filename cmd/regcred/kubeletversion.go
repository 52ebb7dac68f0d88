// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
)

// noteTarget says what of the target the verdict does not depend on.
func (a *app) noteTarget(t config.Target) {
	if minorOf(t.KubeletVersion) > minorOf(config.NewestKubelet) {
		a.Note("kubelet %s is newer than those that regcred knows; it is judged as %s", t.KubeletVersion, config.NewestKubelet)
	}
	known := []string{"KubeletCredentialProviders", "KubeletServiceAccountTokenForCredentialProviders"}
	unknown := slices.DeleteFunc(slices.Sorted(maps.Keys(t.FeatureGates)), func(gate string) bool { return slices.Contains(known, gate) })
	if len(unknown) > 0 {
		a.Note("of --feature-gates these are ignored: %s; credential providers depend on %s",
			strings.Join(unknown, ", "), strings.Join(known, " and "))
	}
}

// minorOf is the 33 of 1.33, v1.33.4 and 1.33-rc.0; 0 of what is no version.
func minorOf(version string) int {
	_, rest, _ := strings.Cut(version, ".")
	n := 0
	_, _ = fmt.Sscanf(rest, "%d", &n)
	return n
}
