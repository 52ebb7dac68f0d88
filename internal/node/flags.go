// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
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

// givenIn returns the flags with these names in a command line.
func givenIn(args []word, names ...string) map[string][]Given {
	given := map[string][]Given{}
	for _, f := range flagsIn(texts(args), names...) {
		w := args[f.at]
		given[f.name] = append(given[f.name], Given{Value: f.value, File: w.file, Line: w.line, By: w.by})
	}
	return given
}

// flags returns the credential provider flags of a command line.
func (r *reader) flags(args []word) Flags {
	given := givenIn(args, configFlag, binDirFlag)
	return Flags{
		Config: Flag{r.place(last(given[configFlag], "")), given[configFlag]},
		BinDir: Flag{r.binDir(last(given[binDirFlag], "")), given[binDirFlag]},
	}
}

// programOf returns the first absolute path with this base name, or "".
func programOf(args []word, name string) string {
	for _, w := range args {
		if path.Base(w.text) == name && path.IsAbs(w.text) {
			return w.text
		}
	}
	return ""
}

// last returns the value of the last flag, which is the effective one.
func last(given []Given, otherwise string) string {
	if len(given) == 0 {
		return otherwise
	}
	return given[len(given)-1].Value
}

// kubeletFlags returns the effective values of the credential provider flags,
// --root-dir and the named flags.
func kubeletFlags(args []string, more ...string) map[string]string {
	flags := map[string]string{}
	for _, f := range flagsIn(args, append(more, configFlag, binDirFlag, "root-dir")...) {
		flags[f.name] = f.value
	}
	return flags
}

// kubeletFlag is a flag in a command line.
type kubeletFlag struct {
	name, value string
	at          int // index of the word
}

// flagsIn returns the flags with these names in a kubelet's command line.
func flagsIn(args []string, names ...string) (list []kubeletFlag) {
	for i := 0; i < len(args); i++ {
		name, value, inline := strings.Cut(args[i], "=")
		name, ok := strings.CutPrefix(name, "--")
		// kubelet: flags may be written with underscores.
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

// GateSettings returns where a feature gate of the kubelet's next start is set: in flags
// and in the kubelet's configuration.
func (r *Reading) GateSettings(ctx context.Context, gate string) (list []Given) {
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
