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

// about returns how this program was built.
func about() protocol.Build {
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

// concerning matches the names of gates that may affect credential providers.
var concerning = regexp.MustCompile(`(?i)credentialprovider|pulledimage|imagepull|nodeaudience`)

// gates returns this kubelet's gates and the errors of setting each.
func gates() []protocol.Gate {
	all := utilfeature.DefaultMutableFeatureGate.DeepCopy().GetAll()
	var list []protocol.Gate
	for name, spec := range all {
		if concerning.MatchString(string(name)) {
			list = append(list, protocol.Gate{Name: string(name), Default: spec.Default, Locked: spec.LockToDefault, Stage: stage(spec), Off: set(name, false), On: set(name, true)})
		}
	}
	for _, name := range protocol.Known {
		if _, ok := all[featuregate.Feature(name)]; !ok {
			list = append(list, protocol.Gate{Name: name, Gone: true, Off: set(featuregate.Feature(name), false), On: set(featuregate.Feature(name), true)})
		}
	}
	slices.SortFunc(list, func(a, b protocol.Gate) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// tokensOn enables the feature gate for service account tokens, unless it was removed.
func tokensOn() error {
	gate := utilfeature.DefaultMutableFeatureGate
	if _, ok := gate.DeepCopy().GetAll()[protocol.Tokens]; !ok {
		return nil
	}
	return gate.Set(protocol.Tokens + "=true")
}

func stage(spec featuregate.FeatureSpec) string {
	if spec.PreRelease == featuregate.GA {
		return "GA"
	}
	return string(spec.PreRelease)
}

// set returns the error of setting a gate, or "".
func set(name featuregate.Feature, on bool) string {
	err := utilfeature.DefaultMutableFeatureGate.DeepCopy().Set(fmt.Sprintf("%s=%t", name, on))
	if err == nil {
		return ""
	}
	return err.Error()
}
