// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/upstream/adapter"
	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/generate"
	"github.com/regcred/regcred/upstream/skew/protocol"
	"github.com/regcred/regcred/upstream/vector"
)

// compareConfigs compares which configurations are accepted, with the feature gate on or off. If a
// kubelet's gate cannot be turned off, it compares them only with the gate on.
func compareConfigs(off bool) func(*comparison) (compareFunc, error) {
	return func(s *comparison) (compareFunc, error) {
		target := config.Target{KubeletVersion: s.oracle.version}
		switch gate := s.oracle.featureGate(protocol.TokenGateName); {
		case gate.IsLocked() && off:
			return nil, nil
		case !gate.IsLocked() && gate.Default == off: // the gate is not at its default
			target.FeatureGates = map[string]bool{protocol.TokenGateName: !off}
		}
		list := generate.SmallConfigs()
		return func(s *comparison, r *rand.Rand) (verdict, error) {
			c := generate.RandomConfig(r, list)
			want, err := queryVector[vector.ConfigVector](s.oracle, "config", c, off)
			if err != nil {
				return verdictAgreed, err
			}
			got, err := loadConfig(filepath.Join(s.dir, "config"), c, target)
			if err != nil {
				return verdictAgreed, err
			}
			return got.compareWith(want, c), nil
		}, nil
	}
}

// loadResult is a configuration as regcred loads it, or the error.
type loadResult struct {
	*config.Config
	err error
}

// loadConfig writes a configuration below dir and loads it for a target.
func loadConfig(dir string, c corpus.Config, target config.Target) (l loadResult, err error) {
	if err := os.RemoveAll(dir); err != nil {
		return l, err
	}
	path, err := c.Write(dir)
	if err != nil {
		return l, err
	}
	if l.Config, l.err = config.Load(path); l.err == nil {
		l.err = l.ValidateFor(target)
	}
	return l, nil
}

func (l loadResult) compareWith(want vector.ConfigVector, c corpus.Config) verdict {
	if (l.err != nil) != want.IsRejected() {
		return newDifference(l.rejectionDifference(want), "regcred: %v; the kubelet: %q\n%s", l.err, want.LoadError+want.ValidateError, formatConfig(c))
	}
	if want.IsRejected() {
		return verdictAgreed
	}
	if want.Hash != "" && want.Hash != l.Hash() {
		return newDifference("", "the hash is %s, the kubelet's %s\n%s", l.Hash(), want.Hash, formatConfig(c))
	}
	if diff := cmp.Diff(want.Providers, adapter.ConvertProviders(l.Providers), cmpopts.EquateEmpty()); diff != "" {
		return newDifference("", "providers differ (-kubelet +regcred):\n%s\n%s", diff, formatConfig(c))
	}
	return verdictAgreed
}

// rejectionDifference returns the name of the known difference that explains why regcred rejects a
// configuration that the kubelet accepts. It returns "" if there is none.
func (l loadResult) rejectionDifference(want vector.ConfigVector) string {
	if l.err == nil {
		return ""
	}
	if slices.ContainsFunc(fieldErrors(l.err), func(p *config.FieldError) bool {
		return isAboutField(p, "apiVersion") && strings.Contains(p.Value, "__internal")
	}) {
		return diffInternalVersion // the internal version also has other field names
	}
	if strings.Contains(l.err.Error(), "YAML aliases cannot be checked, because the text after the document") {
		return diffHiddenAliases
	}
	if slices.ContainsFunc(fieldErrors(l.err), func(p *config.FieldError) bool { return !isAboutField(p, "name") }) {
		return "" // rejected for another reason
	}
	for _, p := range want.Providers {
		if p.Name == "" || strings.Contains(p.Name, `\`) {
			return diffRejectedNames
		}
	}
	return ""
}

// fieldErrors returns the errors joined in err. An error that is not a FieldError is nil in
// the list.
func fieldErrors(err error) (list []*config.FieldError) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			list = append(list, fieldErrors(err)...)
		}
		return list
	}
	problem, _ := errors.AsType[*config.FieldError](err)
	return append(list, problem)
}

// isAboutField reports whether an error is about the field with this name.
func isAboutField(p *config.FieldError, field string) bool {
	return p != nil && (p.Path == field || strings.HasSuffix(p.Path, "."+field))
}

// formatConfig formats a configuration for messages. Generated configurations contain no secrets.
func formatConfig(c corpus.Config) string {
	var b strings.Builder
	for _, f := range c.Files {
		fmt.Fprintf(&b, "%s: %q\n", f.Name, f.Content)
	}
	return b.String()
}
