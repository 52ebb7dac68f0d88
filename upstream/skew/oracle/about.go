// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	_ "k8s.io/kubernetes/pkg/features" // registers the gates

	"github.com/regcred/regcred/upstream/skew/protocol"
)

// buildInfo returns how this program was built.
func buildInfo() protocol.Build {
	b := protocol.Build{Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		if s.Key == "DefaultGODEBUG" {
			b.GODEBUG = s.Value
		}
	}
	for _, m := range info.Deps {
		if m.Path == "k8s.io/kubernetes" {
			b.Kubelet = m.Version
		}
	}
	return b
}

// gateNamePattern matches the names of gates that may affect credential providers.
var gateNamePattern = regexp.MustCompile(`(?i)credentialprovider|pulledimage|imagepull|nodeaudience`)

// listGates returns this kubelet's gates and the errors of setting each.
func listGates() []protocol.Gate {
	all := utilfeature.DefaultMutableFeatureGate.DeepCopy().GetAll()
	var list []protocol.Gate
	for name, spec := range all {
		if gateNamePattern.MatchString(string(name)) {
			list = append(list, protocol.Gate{Name: string(name), Default: spec.Default, Locked: spec.LockToDefault, Stage: gateStage(spec), OffError: setGate(name, false), OnError: setGate(name, true)})
		}
	}
	for _, name := range protocol.AlwaysReported {
		if _, ok := all[featuregate.Feature(name)]; !ok {
			list = append(list, protocol.Gate{Name: name, Gone: true, OffError: setGate(featuregate.Feature(name), false), OnError: setGate(featuregate.Feature(name), true)})
		}
	}
	slices.SortFunc(list, func(a, b protocol.Gate) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// enableTokenGate enables the feature gate for service account tokens, unless it was removed.
func enableTokenGate() error {
	gate := utilfeature.DefaultMutableFeatureGate
	if _, ok := gate.DeepCopy().GetAll()[protocol.TokenGateName]; !ok {
		return nil
	}
	return gate.Set(protocol.TokenGateName + "=true")
}

func gateStage(spec featuregate.FeatureSpec) string {
	if spec.PreRelease == featuregate.GA {
		return "GA"
	}
	return string(spec.PreRelease)
}

// setGate returns the error if a feature gate cannot be set, or "".
func setGate(name featuregate.Feature, on bool) string {
	err := utilfeature.DefaultMutableFeatureGate.DeepCopy().Set(fmt.Sprintf("%s=%t", name, on))
	if err == nil {
		return ""
	}
	return err.Error()
}
