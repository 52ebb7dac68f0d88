// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/regcred/regcred/config"
)

// The kubelet's flags for credential providers.
const (
	configFlag = "image-credential-provider-config"
	binDirFlag = "image-credential-provider-bin-dir"
)

// findFlags returns the flags with the given names in a command line.
func findFlags(args []commandWord, names ...string) map[string][]FlagOccurrence {
	given := map[string][]FlagOccurrence{}
	for _, f := range parseFlags(wordTexts(args), names...) {
		w := args[f.at]
		given[f.name] = append(given[f.name], FlagOccurrence{Value: f.value, File: w.file, Line: w.line, By: w.variable})
	}
	return given
}

// programPath returns the first absolute path with the given base name, or "".
func programPath(args []commandWord, name string) string {
	for _, w := range args {
		if path.Base(w.text) == name && path.IsAbs(w.text) {
			return w.text
		}
	}
	return ""
}

// lastValue returns the value of the last flag, which takes effect.
func lastValue(given []FlagOccurrence, otherwise string) string {
	if len(given) == 0 {
		return otherwise
	}
	return given[len(given)-1].Value
}

// effectiveFlags returns the effective values of the credential provider flags,
// --root-dir and the named flags.
func effectiveFlags(args []string, more ...string) map[string]string {
	flags := map[string]string{}
	for _, f := range parseFlags(args, append(more, configFlag, binDirFlag, "root-dir")...) {
		flags[f.name] = f.value
	}
	return flags
}

// kubeletFlag is a flag in a command line.
type kubeletFlag struct {
	name, value string
	at          int // index of the word
}

// parseFlags returns the flags with the given names in a kubelet's command line.
func parseFlags(args []string, names ...string) (list []kubeletFlag) {
	for i := 0; i < len(args); i++ {
		name, value, inline := strings.Cut(args[i], "=")
		name, ok := strings.CutPrefix(name, "--")
		// kubelet: accepts underscores in flag names.
		name = strings.ReplaceAll(name, "_", "-")
		if !ok || !slices.Contains(names, name) {
			continue
		}
		f := kubeletFlag{name, value, i}
		if !inline && i+1 < len(args) {
			i++
			f.value = args[i]
		}
		list = append(list, f)
	}
	return list
}

const featureGatesFlag = "feature-gates"

// ParseFeatureGates adds the feature gates in a --feature-gates flag. It adds the valid
// gates even if it returns an error. kubelet:
// k8s.io/component-base/cli/flag/map_string_bool.go.
func ParseFeatureGates(gates map[string]bool, value string) (err error) {
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

// IsProviderGate reports whether a feature gate affects how the kubelet treats a provider
// configuration. Gates whose case is wrong count, because the kubelet rejects them.
func IsProviderGate(name string) bool {
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

// KubeconfigFlag is the name of the kubelet flag that selects its API server.
const KubeconfigFlag = "kubeconfig"
