// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package vector runs the cases of package corpus against the kubelet that it is built
// with. A vector is a case with the kubelet's result, as in testdata/parity. The recorder
// runs all cases, upstream/skew/oracle one at a time.
//
// The package is built with each release that package kubelet supports, and so must
// compile with that release's libraries and Go language version.
package vector

import (
	"encoding/json"
	"fmt"

	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/kubelet"
)

// Kind is one file in testdata/parity.
type Kind struct {
	Name  string
	Cases func() []any // from the corpus
	// Ask returns the vector of a JSON case, as JSON.
	Ask func(a *Asker, data []byte) (any, error)
	ask func(a *Asker, c any) (any, error)
}

// Kinds lists all kinds in the order in which they are recorded.
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

// Asker runs cases against this process's kubelet. It must not be used concurrently: a
// kubelet has one set of registered plugins.
type Asker struct {
	// TokensOff disables the feature gate for service account tokens in the validation of
	// configurations.
	TokensOff bool
	// Processes also runs real processes, and fails if their requests or responses
	// differ.
	Processes bool

	dir   string // empty directory for the kubelet's files
	execs map[string]*kubelet.Exec
	ready string // identifies the registered plugins
	plugs []plug // they serve the registered plugins
}

// New returns an Asker that writes to dir.
func New(dir string) *Asker { return &Asker{dir: dir} }
