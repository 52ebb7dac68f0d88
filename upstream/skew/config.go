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
	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/generate"
	"github.com/regcred/regcred/upstream/ours"
	"github.com/regcred/regcred/upstream/skew/protocol"
	"github.com/regcred/regcred/upstream/vector"
)

// configs compares which configurations are accepted, with the feature gate on or off. A
// kubelet on which the gate cannot be turned off is queried once.
func configs(off bool) func(*sides) (compare, error) {
	return func(s *sides) (compare, error) {
		target := config.Target{KubeletVersion: s.oracle.version}
		switch gate := s.oracle.gate(protocol.Tokens); {
		case gate.Fixed() && off:
			return nil, nil
		case !gate.Fixed() && gate.Default == off: // differs from the default
			target.FeatureGates = map[string]bool{protocol.Tokens: !off}
		}
		list := generate.SmallConfigs()
		return func(s *sides, r *rand.Rand) (verdict, error) {
			c := generate.Config(r, list)
			want, err := about[vector.Config](s.oracle, "config", c, off)
			if err != nil {
				return agreed, err
			}
			got, err := load(filepath.Join(s.dir, "config"), c, target)
			if err != nil {
				return agreed, err
			}
			return got.against(want, c), nil
		}, nil
	}
}

// loaded is a configuration as regcred loads it, or the error.
type loaded struct {
	*config.Config
	err error
}

// load writes a configuration below dir and loads it for a target.
func load(dir string, c corpus.Config, target config.Target) (l loaded, err error) {
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

func (l loaded) against(want vector.Config, c corpus.Config) verdict {
	if (l.err != nil) != want.Refused() {
		return differ(l.refusal(want), "regcred: %v; the kubelet: %q\n%s", l.err, want.LoadError+want.ValidateError, dump(c))
	}
	if want.Refused() {
		return agreed
	}
	if want.Hash != "" && want.Hash != l.Hash() {
		return differ("", "the hash is %s, the kubelet's %s\n%s", l.Hash(), want.Hash, dump(c))
	}
	if diff := cmp.Diff(want.Providers, ours.Providers(l.Providers), cmpopts.EquateEmpty()); diff != "" {
		return differ("", "providers differ (-kubelet +regcred):\n%s\n%s", diff, dump(c))
	}
	return agreed
}

// refusal returns the name of the difference because of which regcred rejects a
// configuration that the kubelet accepts, or "".
func (l loaded) refusal(want vector.Config) string {
	if l.err == nil {
		return ""
	}
	if slices.ContainsFunc(problems(l.err), func(p *config.FieldError) bool {
		return at(p, "apiVersion") && strings.Contains(p.Value, "__internal")
	}) {
		return internalVersion // its field names differ too
	}
	if strings.Contains(l.err.Error(), "YAML aliases cannot be checked, because the text after the document") {
		return hiddenAliases
	}
	if slices.ContainsFunc(problems(l.err), func(p *config.FieldError) bool { return !at(p, "name") }) {
		return "" // rejected for another reason
	}
	for _, p := range want.Providers {
		if p.Name == "" || strings.Contains(p.Name, `\`) {
			return refusedNames
		}
	}
	return ""
}

// problems returns the errors joined in err. An error that is not a FieldError is nil in
// the list.
func problems(err error) (list []*config.FieldError) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			list = append(list, problems(err)...)
		}
		return list
	}
	problem, _ := errors.AsType[*config.FieldError](err)
	return append(list, problem)
}

// at reports whether a problem is about the field with that name.
func at(p *config.FieldError, field string) bool {
	return p != nil && (p.Path == field || strings.HasSuffix(p.Path, "."+field))
}

// dump formats a configuration. The generator does not plant secrets.
func dump(c corpus.Config) string {
	var b strings.Builder
	for _, f := range c.Files {
		fmt.Fprintf(&b, "%s: %q\n", f.Name, f.Content)
	}
	return b.String()
}
