// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kubelet

import (
	"maps"
	"slices"
	"time"

	credentialproviderapi "k8s.io/kubelet/pkg/apis/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"

	"github.com/regcred/regcred/upstream/corpus"
)

// Provider is a provider in a configuration that the kubelet has decoded, in the format of the test
// vectors. Empty and missing lists are the same.
type Provider struct {
	Name            string           `json:"name"`
	MatchImages     []string         `json:"matchImages,omitempty"`
	CacheDuration   *time.Duration   `json:"cacheDuration,omitempty"` // nanoseconds
	APIVersion      string           `json:"apiVersion"`
	Args            []string         `json:"args,omitempty"`
	Env             []EnvVar         `json:"env,omitempty"`
	TokenAttributes *TokenAttributes `json:"tokenAttributes,omitempty"`
}

// EnvVar is an entry of a provider's env.
type EnvVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// TokenAttributes holds a provider's tokenAttributes.
type TokenAttributes struct {
	Audience  string   `json:"audience"`
	CacheType string   `json:"cacheType"`
	Require   *bool    `json:"require,omitempty"`
	Required  []string `json:"required,omitempty"`
	Optional  []string `json:"optional,omitempty"`
}

// Providers returns the providers of a configuration.
func Providers(c *kubeletconfig.CredentialProviderConfig) []Provider {
	var out []Provider
	for _, p := range c.Providers {
		q := Provider{Name: p.Name, MatchImages: p.MatchImages, APIVersion: p.APIVersion, Args: p.Args}
		if p.DefaultCacheDuration != nil {
			q.CacheDuration = &p.DefaultCacheDuration.Duration
		}
		for _, e := range p.Env {
			q.Env = append(q.Env, EnvVar{e.Name, e.Value})
		}
		q.TokenAttributes = tokenAttributes(p)
		out = append(out, q)
	}
	return out
}

// Response is a plugin's response that the kubelet has decoded. CacheKeyType may have any value,
// because the kubelet rejects unknown values only in the next step.
type Response struct {
	CacheKeyType  corpus.RawString `json:"cacheKeyType"`
	CacheDuration *time.Duration   `json:"cacheDuration,omitempty"` // nanoseconds
	Auth          []AuthEntry      `json:"auth,omitempty"`          // sorted by key
}

// AuthEntry is an entry of a response's auth. Its strings need not be valid UTF-8.
type AuthEntry struct {
	Key      corpus.RawString `json:"key"`
	Username corpus.RawString `json:"username"`
	Password corpus.RawString `json:"password"`
}

func newResponse(r *credentialproviderapi.CredentialProviderResponse, err error) (*Response, error) {
	if err != nil {
		return nil, err
	}
	out := &Response{CacheKeyType: corpus.RawString(r.CacheKeyType)}
	if r.CacheDuration != nil {
		out.CacheDuration = &r.CacheDuration.Duration
	}
	for _, k := range slices.Sorted(maps.Keys(r.Auth)) {
		out.Auth = append(out.Auth, AuthEntry{corpus.RawString(k), corpus.RawString(r.Auth[k].Username), corpus.RawString(r.Auth[k].Password)})
	}
	return out, nil
}

// LookupCredentials returns the credentials for an image from the responses of all matching
// providers, in the same way as the kubelet's plugin keyring.
func LookupCredentials(answers []map[string]corpus.Auth, image string) []corpus.Auth {
	ring := &credentialprovider.BasicDockerKeyring{}
	for _, a := range answers {
		cfg := credentialprovider.DockerConfig{}
		for k, v := range a {
			cfg[k] = credentialprovider.DockerConfigEntry{Username: string(v.Username), Password: string(v.Password)}
		}
		addCredentials(ring, cfg)
	}
	creds, _ := ring.Lookup(image)
	return AuthsOf(creds)
}

// AuthsOf returns the user names and passwords of credentials.
func AuthsOf(creds []Credential) []corpus.Auth {
	out := []corpus.Auth{}
	for _, c := range creds {
		out = append(out, corpus.Auth{Username: corpus.RawString(c.Username), Password: corpus.RawString(c.Password)})
	}
	return out
}
