// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/regcred/regcred/plugin"
)

// Provider is one entry of a [Config]: an executable, the images it is asked
// about, and how it is called. The JSON names are those of the kubelet's
// types; [Load] is the only decoder.
//
// The zero value is refused by [Config.Validate]. A Provider of a Config is read
// only, and so safe for concurrent use.
//
// One of the predecessor has the APIVersion [plugin.OutOfTree], its
// imageMatchers as MatchImages, its extraArgs as Env, with names in upper
// case, and a DefaultCacheDuration of 0.
type Provider struct {
	Name                 string           `json:"name"`                      // file name of the executable: see CheckName
	MatchImages          []string         `json:"matchImages"`               // patterns: see package match
	DefaultCacheDuration *time.Duration   `json:"defaultCacheDuration"`      // of an answer that has none; nil if it is missing
	APIVersion           string           `json:"apiVersion"`                // of the protocol, e.g. plugin.V1
	Args                 []plugin.Secret  `json:"args,omitempty"`            // people put tokens there
	Env                  []EnvVar         `json:"env,omitempty"`             // of two with one name the later wins
	TokenAttributes      *TokenAttributes `json:"tokenAttributes,omitempty"` // nil: no service-account mode
}

// EnvVar is an environment variable that a provider's plugin gets beside the
// host's environment. Values are secrets: people put tokens there.
type EnvVar struct {
	Name  string        `json:"name"`
	Value plugin.Secret `json:"value"`
}

// TokenAttributes puts a provider into service-account mode (KEP-4412): its
// plugin gets a token of the pod's service account, and those of the named
// annotations that the account has.
type TokenAttributes struct {
	ServiceAccountTokenAudience          string         `json:"serviceAccountTokenAudience"`
	CacheType                            TokenCacheType `json:"cacheType"`
	RequireServiceAccount                *bool          `json:"requireServiceAccount"` // nil if it is missing
	RequiredServiceAccountAnnotationKeys []string       `json:"requiredServiceAccountAnnotationKeys,omitempty"`
	OptionalServiceAccountAnnotationKeys []string       `json:"optionalServiceAccountAnnotationKeys,omitempty"`
}

// TokenCacheType says what an answer in service-account mode is cached under.
// Kubelets have it since 1.34, and then it must not be empty.
type TokenCacheType string

const (
	// CachePerServiceAccount: answers are shared by the pods of one service account.
	CachePerServiceAccount TokenCacheType = "ServiceAccount"
	// CachePerToken: answers are kept per token. Required where the plugin
	// returns the token itself.
	CachePerToken TokenCacheType = "Token"
)

// Command returns p's plugin as a kubelet would run it from binDir. The fields
// that a configuration does not set, such as Dir and Timeout, are left to the
// caller.
func (p *Provider) Command(binDir string) plugin.Command {
	c := plugin.Command{Path: filepath.Join(binDir, p.Name), Name: p.Name, Args: slices.Clone(p.Args), APIVersion: p.APIVersion}
	for _, v := range p.Env {
		c.Env = append(c.Env, plugin.NewSecret(v.Name+"="+v.Value.Reveal()))
	}
	return c
}

// Arguments returns Args as what is executed: secrets in clear, perhaps. The
// list is the caller's.
func (p *Provider) Arguments() []string {
	args := make([]string, len(p.Args))
	for i, a := range p.Args {
		args[i] = a.Reveal()
	}
	return args
}

// Predecessor reports whether p speaks the protocol of the predecessor of
// KEP-2133, in which case no kubelet runs it.
func (p *Provider) OutOfTree() bool { return p.APIVersion == plugin.OutOfTree }

// Equal reports whether two entries, neither of them nil, say the same. An empty
// list says what a missing one does.
func (p *Provider) Equal(q *Provider) bool {
	return p.Name == q.Name && p.APIVersion == q.APIVersion &&
		slices.Equal(p.MatchImages, q.MatchImages) &&
		equalOrNil(p.DefaultCacheDuration, q.DefaultCacheDuration) &&
		slices.EqualFunc(p.Args, q.Args, plugin.Secret.Equal) &&
		slices.EqualFunc(p.Env, q.Env, EnvVar.equal) &&
		p.TokenAttributes.equal(q.TokenAttributes)
}

func (v EnvVar) equal(w EnvVar) bool { return v.Name == w.Name && v.Value.Equal(w.Value) }

func (t *TokenAttributes) equal(u *TokenAttributes) bool {
	if t == nil || u == nil {
		return t == u
	}
	return t.ServiceAccountTokenAudience == u.ServiceAccountTokenAudience && t.CacheType == u.CacheType &&
		equalOrNil(t.RequireServiceAccount, u.RequireServiceAccount) &&
		slices.Equal(t.RequiredServiceAccountAnnotationKeys, u.RequiredServiceAccountAnnotationKeys) &&
		slices.Equal(t.OptionalServiceAccountAnnotationKeys, u.OptionalServiceAccountAnnotationKeys)
}

func equalOrNil[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
