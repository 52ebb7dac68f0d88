// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package vector asks the kubelet that a program is built with about the cases
// of package corpus. A vector is a case with the kubelet's answer, as
// testdata/parity holds it. The recorder asks about all of them, and
// upstream/skew/oracle about one after the other.
//
// It is built with every release that package kubelet reaches, and so with its
// libraries and the version of Go's language that it has.
package vector

import (
	"encoding/json"
	"fmt"

	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/kubelet"
)

// Kind is one file of testdata/parity.
type Kind struct {
	Name  string
	Cases func() []any // those of the corpus
	// Ask returns the vector of a case in JSON.
	Ask func(a *Asker, data []byte) (any, error)
	ask func(a *Asker, c any) (any, error)
}

// Kinds are all of them, in the order in which they are recorded.
var Kinds = []Kind{
	kind("match", corpus.Match, match),
	kind("references", references, reference),
	kind("config", corpus.Configs, (*Asker).config),
	kind("request", corpus.Requests, (*Asker).request),
	kind("response", corpus.Responses, (*Asker).response),
	kind("keyring", corpus.Keyrings, (*Asker).keyring),
	kind("dockerconfig", corpus.Secrets, dockerConfig),
	kind("cachekey", corpus.Keys, cacheKey),
	kind("serviceaccount", corpus.Accounts, (*Asker).serviceAccount),
	kind("cache", corpus.Caches, (*Asker).cache),
}

func kind[C, V any](name string, cases func() []C, ask func(*Asker, C) (V, error)) Kind {
	return Kind{
		Name: name,
		Cases: func() (all []any) {
			for _, c := range cases() {
				all = append(all, c)
			}
			return all
		},
		Ask: func(a *Asker, data []byte) (any, error) {
			var c C
			if err := json.Unmarshal(data, &c); err != nil {
				return nil, err
			}
			return ask(a, c)
		},
		ask: func(a *Asker, c any) (any, error) { return ask(a, c.(C)) },
	}
}

// All returns the vectors of all cases.
func (k Kind) All(a *Asker) (all []any, err error) {
	for _, c := range k.Cases() {
		v, err := k.ask(a, c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.Name, err)
		}
		all = append(all, v)
	}
	return all, nil
}

// Asker asks the kubelet of this process. One that asks is not to be used by
// two goroutines: a kubelet has one set of registered plugins.
type Asker struct {
	// TokensOff turns the feature gate of service-account tokens off when
	// configurations are validated.
	TokensOff bool
	// Processes also runs real processes, and fails where they are given, or
	// answer, something else.
	Processes bool

	dir   string // empty, for what a kubelet reads
	execs map[string]*kubelet.Exec
	ready string // what the registered plugins are for
	plugs []plug // that answer for these
}

// New returns an Asker that writes into a directory.
func New(dir string) *Asker { return &Asker{dir: dir} }
