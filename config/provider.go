// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/regcred/regcred/plugin"
)

// Provider is a provider in a [Config]: a plugin, the images for which it is called, and its
// arguments. The JSON names are the kubelet's, but use [Load] or [Parse] to decode files.
// [Config.Validate] rejects the zero value.
//
// For a provider of the out-of-tree proposal, APIVersion is [plugin.OutOfTree], MatchImages are
// its imageMatchers, Env is its extraArgs with names in upper case, and DefaultCacheDuration is
// 0.
type Provider struct {
	Name                 string           `json:"name"`                      // file name of the executable; see CheckName
	MatchImages          []string         `json:"matchImages"`               // patterns; see package match
	DefaultCacheDuration *time.Duration   `json:"defaultCacheDuration"`      // for responses without a cache duration; nil if absent
	APIVersion           string           `json:"apiVersion"`                // version of the protocol, e.g. plugin.V1
	Args                 []plugin.Secret  `json:"args,omitempty"`            // may contain tokens
	Env                  []EnvVar         `json:"env,omitempty"`             // if names repeat, the last one wins
	TokenAttributes      *TokenAttributes `json:"tokenAttributes,omitempty"` // nil disables service-account mode
}

// EnvVar is an environment variable to add to the plugin's environment. Its value may
// be a token, so it is treated as a secret.
type EnvVar struct {
	Name  string        `json:"name"`
	Value plugin.Secret `json:"value"`
}

// TokenAttributes enables service-account mode (KEP-4412). The plugin receives a token
// for the pod's service account, and the account's annotations with the given keys.
type TokenAttributes struct {
	ServiceAccountTokenAudience          string         `json:"serviceAccountTokenAudience"`
	CacheType                            TokenCacheType `json:"cacheType"`
	RequireServiceAccount                *bool          `json:"requireServiceAccount"` // nil if absent
	RequiredServiceAccountAnnotationKeys []string       `json:"requiredServiceAccountAnnotationKeys,omitempty"`
	OptionalServiceAccountAnnotationKeys []string       `json:"optionalServiceAccountAnnotationKeys,omitempty"`
}

// TokenCacheType determines how responses are cached in service-account mode. Kubelets since
// 1.34 require it. Older kubelets do not support it.
type TokenCacheType string

const (
	// CachePerServiceAccount shares responses between the pods of a service account.
	CachePerServiceAccount TokenCacheType = "ServiceAccount"
	// CachePerToken caches responses per token. It is required if the plugin returns the
	// token itself.
	CachePerToken TokenCacheType = "Token"
)

// Command returns the command that the kubelet runs for p with this binDir. The caller
// sets fields that are not in a configuration, such as Dir and Timeout.
func (p *Provider) Command(binDir string) plugin.Command {
	c := plugin.Command{Path: filepath.Join(binDir, p.Name), Name: p.Name, Args: slices.Clone(p.Args), APIVersion: p.APIVersion}
	for _, v := range p.Env {
		c.Env = append(c.Env, plugin.NewSecret(v.Name+"="+v.Value.Reveal()))
	}
	return c
}

// Arguments returns a copy of Args in clear text.
func (p *Provider) Arguments() []string {
	args := make([]string, len(p.Args))
	for i, a := range p.Args {
		args[i] = a.Reveal()
	}
	return args
}

// Equal reports whether two providers are equal. An empty list equals an absent list.
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
