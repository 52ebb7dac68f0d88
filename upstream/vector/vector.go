// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package vector runs the cases of package corpus against the kubelet that it is built with. A
// vector is a case with the kubelet's result, as in testdata/parity. The recorder runs all cases.
// upstream/skew/oracle runs one case at a time.
//
// The package is built with each release that package kubelet supports. It must therefore compile
// with those releases' libraries and Go language versions.
package vector

import (
	"encoding/json"
	"fmt"

	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/kubelet"
)

// Kind is a kind of vectors, with one file in testdata/parity.
type Kind struct {
	Name  string
	Cases func() []any // returns the cases of package corpus
	// RunJSON returns the vector of a JSON case, as JSON.
	RunJSON func(a *VectorRunner, data []byte) (any, error)
	vector  func(a *VectorRunner, c any) (any, error)
}

// Kinds lists all kinds in the order in which they are recorded.
var Kinds = []Kind{
	newKind("match", corpus.MatchCases, matchVector),
	newKind("references", referenceCases, referenceVector),
	newKind("config", corpus.Configs, (*VectorRunner).configVector),
	newKind("request", corpus.Requests, (*VectorRunner).requestVector),
	newKind("response", corpus.Responses, (*VectorRunner).responseVector),
	newKind("keyring", corpus.KeyringCases, (*VectorRunner).keyringVector),
	newKind("dockerconfig", corpus.PullSecretCases, dockerConfigVector),
	newKind("cachekey", corpus.CacheKeyCases, cacheKeyVector),
	newKind("serviceaccount", corpus.ServiceAccountCases, (*VectorRunner).serviceAccountVector),
	newKind("cache", corpus.CacheCases, (*VectorRunner).cacheVector),
}

func newKind[C, V any](name string, cases func() []C, ask func(*VectorRunner, C) (V, error)) Kind {
	return Kind{
		Name: name,
		Cases: func() (all []any) {
			for _, c := range cases() {
				all = append(all, c)
			}
			return all
		},
		RunJSON: func(a *VectorRunner, data []byte) (any, error) {
			var c C
			if err := json.Unmarshal(data, &c); err != nil {
				return nil, err
			}
			return ask(a, c)
		},
		vector: func(a *VectorRunner, c any) (any, error) { return ask(a, c.(C)) },
	}
}

// AllVectors returns the vectors of all cases.
func (k Kind) AllVectors(a *VectorRunner) (all []any, err error) {
	for _, c := range k.Cases() {
		v, err := k.vector(a, c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.Name, err)
		}
		all = append(all, v)
	}
	return all, nil
}

// VectorRunner runs cases against the kubelet in this process. It must not be used concurrently,
// because a kubelet has only one set of registered plugins.
type VectorRunner struct {
	// TokensOff disables the feature gate for service account tokens in the validation of
	// configurations.
	TokensOff bool
	// Processes also runs real processes, and fails if their requests or responses
	// differ.
	Processes bool

	dir           string // empty directory for the kubelet's files
	execs         map[string]*kubelet.ExecPlugin
	registeredKey string            // identifies the registered plugins
	inProcess     []recordingPlugin // implementations of the registered plugins
}

// New returns a VectorRunner that writes to dir.
func New(dir string) *VectorRunner { return &VectorRunner{dir: dir} }
