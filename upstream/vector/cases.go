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

// Match is a vector of match.json.
type Match struct {
	corpus.Pair
	Match   bool `json:"match"`
	Invalid bool `json:"invalid,omitempty"` // the pattern cannot be parsed
}

func match(_ *Asker, p corpus.Pair) (Match, error) {
	ok, _ := credentialprovider.URLsMatchStr(string(p.Pattern), string(p.Image))
	_, err := credentialprovider.ParseSchemelessURL(string(p.Pattern))
	return Match{p, ok, err != nil}, nil
}

// Reference is a vector of references.json. Its first field is the case.
type Reference struct {
	Reference  corpus.Text `json:"reference"`
	Repository string      `json:"repository,omitempty"`
	Error      bool        `json:"error,omitempty"`
}

func references() (all []Reference) {
	for _, ref := range corpus.References() {
		all = append(all, Reference{Reference: corpus.Text(ref)})
	}
	return all
}

func reference(_ *Asker, r Reference) (Reference, error) {
	repo, _, _, err := parsers.ParseImageName(string(r.Reference))
	return Reference{r.Reference, repo, err != nil}, nil
}

// Config is a vector of config.json.
type Config struct {
	corpus.Config
	LoadError     string             `json:"loadError,omitempty"`
	ValidateError string             `json:"validateError,omitempty"`
	Hash          string             `json:"hash,omitempty"`
	Providers     []kubelet.Provider `json:"providers,omitempty"`
}

// Refused reports whether the kubelet fails to start with the configuration.
func (c Config) Refused() bool { return c.LoadError+c.ValidateError != "" }

func (a *Asker) config(c corpus.Config) (Config, error) {
	dir := filepath.Join(a.dir, "config")
	if err := os.RemoveAll(dir); err != nil {
		return Config{}, err
	}
	path, err := c.Write(dir)
	if err != nil {
		return Config{}, err
	}
	v := Config{Config: c}
	cfg, hash, err := kubelet.ReadConfig(path)
	if err != nil {
		v.LoadError = clean(err, dir)
		return v, nil
	}
	v.Hash, v.Providers = hash, kubelet.Providers(cfg)
	if err := kubelet.ValidateWith(cfg, !a.TokensOff); err != nil {
		v.ValidateError = clean(err, dir)
	}
	return v, nil
}

// clean shortens an error and removes what depends on the machine.
func clean(err error, dir string) string {
	msg := strings.ReplaceAll(err.Error(), dir, "DIR")
	if len(msg) > 500 {
		msg = strings.ToValidUTF8(msg[:500], "") + "…"
	}
	return msg
}

// Keyring is a vector of keyring.json.
type Keyring struct {
	corpus.Keyring
	Credentials []corpus.Auth `json:"credentials"`
}

// keyring queries registered plugins. Their names are in reverse order, to show that the
// order in the configuration counts.
func (a *Asker) keyring(k corpus.Keyring) (Keyring, error) {
	repo, _, _, err := parsers.ParseImageName(k.Image)
	if err != nil {
		return Keyring{}, err
	}
	if err := a.answering(max(8, len(k.Answers))); err != nil {
		return Keyring{}, err
	}
	for i := range a.plugs {
		a.plugs[i].auth = nil
		if i < len(k.Answers) {
			a.plugs[i].auth = k.Answers[i]
		}
	}
	creds, _ := kubelet.Keyring("", "", "", "").Lookup(repo)
	return Keyring{k, kubelet.Auths(creds)}, nil
}

// DockerConfig is a vector of dockerconfig.json.
type DockerConfig struct {
	corpus.Secret
	Error   bool     `json:"error,omitempty"` // the secret is rejected
	Lookups []Lookup `json:"lookups,omitempty"`
}

// Lookup is the result for one image.
type Lookup struct {
	Image       string        `json:"image"`
	Credentials []corpus.Auth `json:"credentials"`
}

func dockerConfig(_ *Asker, s corpus.Secret) (DockerConfig, error) {
	v := DockerConfig{Secret: s}
	ring, err := secrets.MakeDockerKeyring([]corev1.Secret{{
		Type: corev1.SecretType(s.Type), Data: map[string][]byte{s.Key: []byte(s.Data)},
	}}, credentialprovider.UnionDockerKeyring{})
	v.Error = err != nil
	if err == nil {
		for _, image := range s.Images {
			creds, _ := ring.Lookup(image)
			v.Lookups = append(v.Lookups, Lookup{image, kubelet.Auths(creds)})
		}
	}
	return v, nil
}

// CacheKey is a vector of cachekey.json.
type CacheKey struct {
	corpus.Identities
	Same   bool `json:"same"`
	ErrorA bool `json:"errorA,omitempty"`
	ErrorB bool `json:"errorB,omitempty"`
}

func cacheKey(_ *Asker, ids corpus.Identities) (CacheKey, error) {
	a, errA := kubelet.CacheKey(ids.CacheType, ids.A.Expand())
	b, errB := kubelet.CacheKey(ids.CacheType, ids.B.Expand())
	return CacheKey{ids, errA == nil && errB == nil && a == b, errA != nil, errB != nil}, nil
}
