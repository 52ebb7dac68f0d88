// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
)

// Target is a registry or an image for which Secrets contain a credential. One of the fields is
// set, normalized as package match does.
type Target struct {
	Registry string `json:"registry,omitempty"`
	Image    string `json:"image,omitempty"`
}

// Host returns the registry's host and port.
func (t Target) Host() string {
	host, _, _ := strings.Cut(t.String(), "/")
	return host
}

func (t Target) String() string { return t.Registry + t.Image }

func (t Target) request() regcred.Request {
	return regcred.Request{Registry: t.Registry, Image: t.Image}
}

// ProviderTargets lists the targets for which a provider is called.
type ProviderTargets struct {
	Provider string   `json:"provider"`
	Targets  []Target `json:"targets"`
}

// SecretPlan describes the content of a Secret.
type SecretPlan struct {
	Name      string            // of the Secret
	Account   string            // service account; "" for the Secret that all pods share
	Providers []ProviderTargets // in the order of the configuration; empty means that nothing matches
	Hash      string            // changes if other credentials are wanted; does not depend on args and env
}

// Plan assigns providers to namespaces and service accounts. It is read-only.
type Plan struct {
	File   *File
	Config *config.Config

	providers map[Target][]int // indexes of matching providers
}

// NewPlan returns the plan for a file and a valid provider configuration.
func NewPlan(f *File, c *config.Config) *Plan {
	p := &Plan{File: f, Config: c, providers: map[Target][]int{}}
	for _, t := range f.Targets() {
		for _, x := range regcred.Explain(c, t.request()).Providers {
			if x.Matched {
				p.providers[t] = append(p.providers[t], x.Index)
			}
		}
	}
	return p
}

// Secrets returns the Secrets of a namespace with these labels, or nil if it is not selected.
func (p *Plan) Secrets(labels map[string]string) []SecretPlan {
	if !p.File.Namespaces.Match(labels) {
		return nil
	}
	secrets := []SecretPlan{p.secret(labels, "")}
	for _, a := range p.File.ServiceAccounts {
		secrets = append(secrets, p.secret(labels, a))
	}
	return secrets
}

// Secret returns the plan for one Secret of a namespace. ok is false if the controller must not
// write that Secret.
func (p *Plan) Secret(labels map[string]string, name string) (s SecretPlan, ok bool) {
	account, ok := p.File.Account(name)
	if !ok || !p.File.Namespaces.Match(labels) {
		return SecretPlan{}, false
	}
	return p.secret(labels, account), true
}

func (p *Plan) secret(labels map[string]string, account string) SecretPlan {
	s := SecretPlan{Name: p.File.SecretName, Account: account}
	if account != "" {
		s.Name = p.File.AccountSecret(account)
	}
	var targets []Target
	for _, r := range p.File.Rules {
		if r.Namespaces.Match(labels) {
			targets = appendMissing(targets, r.Targets...)
		}
	}
	s.Providers = p.providerTargets(targets, account != "")
	s.Hash = p.hash(s.Providers)
	return s
}

// SharedTargets returns all targets of a provider without tokenAttributes, whichever namespace
// they belong to, so that one run of the provider serves all namespaces.
func (p *Plan) SharedTargets(provider string) []Target {
	for _, pt := range p.providerTargets(p.File.Targets(), false) {
		if pt.Provider == provider {
			return pt.Targets
		}
	}
	return nil
}

// providerTargets returns the providers with or without tokenAttributes that match targets.
func (p *Plan) providerTargets(targets []Target, tokens bool) (list []ProviderTargets) {
	for i, provider := range p.Config.Providers {
		if (provider.TokenAttributes != nil) != tokens {
			continue
		}
		pt := ProviderTargets{Provider: provider.Name}
		for _, t := range targets {
			for _, matched := range p.providers[t] {
				if matched == i {
					pt.Targets = append(pt.Targets, t)
				}
			}
		}
		if len(pt.Targets) > 0 {
			list = append(list, pt)
		}
	}
	return list
}

// Unmatched returns the targets that no provider matches.
func (p *Plan) Unmatched() (list []Target) {
	for _, t := range p.File.Targets() {
		if len(p.providers[t]) == 0 {
			list = append(list, t)
		}
	}
	return list
}

// Providers returns the names of the providers that match a target, in order.
func (p *Plan) Providers(t Target) (names []string) {
	for _, i := range p.providers[t] {
		names = append(names, p.Config.Providers[i].Name)
	}
	return names
}

// hash returns a hash of the providers' public fields. It leaves out args and env, because everyone
// who can read a Secret's annotations could test guesses for a password in them.
func (p *Plan) hash(list []ProviderTargets) string {
	type public struct {
		ProviderTargets
		MatchImages     []string
		APIVersion      string
		TokenAttributes *config.TokenAttributes
	}
	var all []public
	for _, pt := range list {
		provider := findProvider(p.Config, pt.Provider)
		all = append(all, public{pt, provider.MatchImages, provider.APIVersion, provider.TokenAttributes})
	}
	data, err := json.Marshal(all)
	if err != nil { // the types contain only strings
		panic(err)
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
