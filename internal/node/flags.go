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

// The kubelet's credential provider flags.
const (
	configFlag = "image-credential-provider-config"
	binDirFlag = "image-credential-provider-bin-dir"
)

// findFlags returns all occurrences of the named flags in a command line, by name.
func findFlags(args []commandWord, names ...string) map[string][]FlagOccurrence {
	given := map[string][]FlagOccurrence{}
	for _, f := range parseFlags(wordTexts(args), names...) {
		w := args[f.at]
		given[f.name] = append(given[f.name], FlagOccurrence{Value: f.value, File: w.file, Line: w.line, By: w.variable})
	}
	return given
}

// programPath returns the first word of a command line that is an absolute path with the given
// base name, or "".
func programPath(args []commandWord, name string) string {
	for _, w := range args {
		if path.Base(w.text) == name && path.IsAbs(w.text) {
			return w.text
		}
	}
	return ""
}

// lastValue returns the value of a flag's last occurrence, which takes effect. If there is
// none, it returns otherwise.
func lastValue(given []FlagOccurrence, otherwise string) string {
	if len(given) == 0 {
		return otherwise
	}
	return given[len(given)-1].Value
}

// effectiveFlags returns the effective values of the credential provider flags, --root-dir and
// the flags in more.
func effectiveFlags(args []string, more ...string) map[string]string {
	flags := map[string]string{}
	for _, f := range parseFlags(args, append(more, configFlag, binDirFlag, "root-dir")...) {
		flags[f.name] = f.value
	}
	return flags
}

// kubeletFlag is an occurrence of a flag in a command line.
type kubeletFlag struct {
	name, value string
	at          int // index of the flag in the command line
}

// parseFlags returns all occurrences of the named flags in a kubelet's command line.
func parseFlags(args []string, names ...string) (list []kubeletFlag) {
	for i := 0; i < len(args); i++ {
		name, value, inline := strings.Cut(args[i], "=")
		name, ok := strings.CutPrefix(name, "--")
		// kubelet: it accepts underscores in flag names.
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

// ParseFeatureGates parses the value of a --feature-gates flag and adds the gates to the map.
// If a part of the value is invalid, it adds the valid gates and returns an error. kubelet:
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

// IsProviderGate reports whether a feature gate affects credential providers. It ignores case,
// because a gate with wrong case prevents the kubelet from starting.
func IsProviderGate(name string) bool {
	return slices.ContainsFunc(config.FeatureGates(), func(gate string) bool { return strings.EqualFold(gate, name) })
}

// Target returns the version and feature gates of the kubelet's next start. It returns the zero
// value if the version is unknown.
func (s *Setup) Target() config.Target {
	if s.Version.Kubelet == "" {
		return config.Target{}
	}
	return config.Target{KubeletVersion: s.Version.Kubelet, FeatureGates: s.Gates}
}

// KubeconfigFlag is the kubelet flag for the kubeconfig with which it connects to the API
// server.
const KubeconfigFlag = "kubeconfig"
