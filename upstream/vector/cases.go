// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package vector

import (
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider/secrets"
	"k8s.io/kubernetes/pkg/util/parsers"

	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/kubelet"
)

// MatchVector is a vector of match.json.
type MatchVector struct {
	corpus.MatchCase
	Match   bool `json:"match"`
	Invalid bool `json:"invalid,omitempty"` // the pattern cannot be parsed
}

func matchVector(_ *VectorRunner, p corpus.MatchCase) (MatchVector, error) {
	ok, _ := credentialprovider.URLsMatchStr(string(p.Pattern), string(p.Image))
	_, err := credentialprovider.ParseSchemelessURL(string(p.Pattern))
	return MatchVector{p, ok, err != nil}, nil
}

// ReferenceVector is a vector of references.json. Its first field is the case.
type ReferenceVector struct {
	Reference  corpus.RawString `json:"reference"`
	Repository string           `json:"repository,omitempty"`
	Error      bool             `json:"error,omitempty"`
}

func referenceCases() (all []ReferenceVector) {
	for _, ref := range corpus.ImageReferences() {
		all = append(all, ReferenceVector{Reference: corpus.RawString(ref)})
	}
	return all
}

func referenceVector(_ *VectorRunner, r ReferenceVector) (ReferenceVector, error) {
	repo, _, _, err := parsers.ParseImageName(string(r.Reference))
	return ReferenceVector{r.Reference, repo, err != nil}, nil
}

// ConfigVector is a vector of config.json.
type ConfigVector struct {
	corpus.Config
	LoadError     string             `json:"loadError,omitempty"`
	ValidateError string             `json:"validateError,omitempty"`
	Hash          string             `json:"hash,omitempty"`
	Providers     []kubelet.Provider `json:"providers,omitempty"`
}

// IsRejected reports whether the kubelet fails to start with the configuration.
func (c ConfigVector) IsRejected() bool { return c.LoadError+c.ValidateError != "" }

func (a *VectorRunner) configVector(c corpus.Config) (ConfigVector, error) {
	dir := filepath.Join(a.dir, "config")
	if err := os.RemoveAll(dir); err != nil {
		return ConfigVector{}, err
	}
	path, err := c.Write(dir)
	if err != nil {
		return ConfigVector{}, err
	}
	v := ConfigVector{Config: c}
	cfg, hash, err := kubelet.ReadConfig(path)
	if err != nil {
		v.LoadError = cleanError(err, dir)
		return v, nil
	}
	v.Hash, v.Providers = hash, kubelet.Providers(cfg)
	if err := kubelet.ValidateWithTokens(cfg, !a.TokensOff); err != nil {
		v.ValidateError = cleanError(err, dir)
	}
	return v, nil
}

// cleanError returns a shortened error text without the parts that depend on the machine.
func cleanError(err error, dir string) string {
	msg := strings.ReplaceAll(err.Error(), dir, "DIR")
	if len(msg) > 500 {
		msg = strings.ToValidUTF8(msg[:500], "") + "…"
	}
	return msg
}

// KeyringVector is a vector of keyring.json.
type KeyringVector struct {
	corpus.KeyringCase
	Credentials []corpus.Auth `json:"credentials"`
}

// keyringVector looks up credentials with registered plugins. The plugins' names are in reverse
// order, to verify that only the order in the configuration matters.
func (a *VectorRunner) keyringVector(k corpus.KeyringCase) (KeyringVector, error) {
	repo, _, _, err := parsers.ParseImageName(k.Image)
	if err != nil {
		return KeyringVector{}, err
	}
	if err := a.registerUncached(max(8, len(k.Responses))); err != nil {
		return KeyringVector{}, err
	}
	for i := range a.inProcess {
		a.inProcess[i].auth = nil
		if i < len(k.Responses) {
			a.inProcess[i].auth = k.Responses[i]
		}
	}
	creds, _ := kubelet.NewKeyring("", "", "", "").Lookup(repo)
	return KeyringVector{k, kubelet.AuthsOf(creds)}, nil
}

// DockerConfigVector is a vector of dockerconfig.json.
type DockerConfigVector struct {
	corpus.PullSecretCase
	Error   bool     `json:"error,omitempty"` // whether the kubelet rejects the secret
	Lookups []Lookup `json:"lookups,omitempty"`
}

// Lookup is the result of looking up one image.
type Lookup struct {
	Image       string        `json:"image"`
	Credentials []corpus.Auth `json:"credentials"`
}

func dockerConfigVector(_ *VectorRunner, s corpus.PullSecretCase) (DockerConfigVector, error) {
	v := DockerConfigVector{PullSecretCase: s}
	ring, err := secrets.MakeDockerKeyring([]corev1.Secret{{
		Type: corev1.SecretType(s.Type), Data: map[string][]byte{s.Key: []byte(s.Data)},
	}}, credentialprovider.UnionDockerKeyring{})
	v.Error = err != nil
	if err == nil {
		for _, image := range s.Images {
			creds, _ := ring.Lookup(image)
			v.Lookups = append(v.Lookups, Lookup{image, kubelet.AuthsOf(creds)})
		}
	}
	return v, nil
}

// CacheKeyVector is a vector of cachekey.json.
type CacheKeyVector struct {
	corpus.CacheKeyCase
	Same   bool `json:"same"`
	ErrorA bool `json:"errorA,omitempty"`
	ErrorB bool `json:"errorB,omitempty"`
}

func cacheKeyVector(_ *VectorRunner, ids corpus.CacheKeyCase) (CacheKeyVector, error) {
	a, errA := kubelet.CacheKey(ids.CacheType, ids.A.ExpandLengths())
	b, errB := kubelet.CacheKey(ids.CacheType, ids.B.ExpandLengths())
	return CacheKeyVector{ids, errA == nil && errB == nil && a == b, errA != nil, errB != nil}, nil
}
