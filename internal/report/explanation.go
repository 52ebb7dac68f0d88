// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package report defines the results of regcred's commands, for example whether the kubelet would
// start with a configuration, lint findings, and the expected outcome of an image pull. The
// commands print these types with -o json, and the playground displays them.
//
// The package prints nothing and reads files only through package lint.
package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/diagnose"
	"github.com/regcred/regcred/internal/dockerjson"
	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/internal/route"
)

// Explanation is the result of "regcred explain". The text and JSON formats have the
// same content.
type Explanation struct {
	Image       string            `json:"image,omitempty"`
	Registry    string            `json:"registry,omitempty"`
	Repository  string            `json:"repository"` // the name that patterns are matched against; for a registry, its host
	Config      ConfigFile        `json:"config"`
	BinDir      string            `json:"binDir,omitempty"`
	Environment string            `json:"environment"`       // "caller" or "kubelet pid N"
	Subject     *Subject          `json:"subject,omitempty"` // set for --pod or --service-account
	DryRun      bool              `json:"dryRun"`
	Sources     []Source          `json:"sources"` // pull secrets and the node's docker config files
	Providers   []Provider        `json:"providers"`
	Nearest     *int              `json:"nearest,omitempty"` // index in Providers; set if no provider matches but one has a similar pattern
	Credentials []Credential      `json:"credentials"`
	Findings    []finding.Finding `json:"findings"`        // findings that are not about a single provider
	Route       *route.Route      `json:"route,omitempty"` // hosts the runtime queries, if its files configure any
	Verdict     Verdict           `json:"verdict"`
}

// ConfigFile describes the configuration and how it was found.
type ConfigFile struct {
	Path string `json:"path"`
	Hash string `json:"hash,omitempty"`
	From string `json:"from"` // what selected the paths, for example flags

	NoProviders any `json:"without,omitempty"` // set if no configuration was found
}

// Subject is the pod or service account for which an image is resolved.
type Subject struct {
	Pod            *Object  `json:"pod,omitempty"`
	Node           string   `json:"node,omitempty"`           // name of the pod's node
	ServiceAccount *Object  `json:"serviceAccount,omitempty"` // omitted for a pod without a service account
	PullSecrets    []string `json:"pullSecrets"`              // names, including unreadable secrets
	APIServer      string   `json:"apiServer"`
	From           string   `json:"from"`                  // source of the address and identity
	Differences    []string `json:"differences,omitempty"` // differences from the kubelet's behavior
}

// Source is a source of credentials that is not a provider.
type Source struct {
	Kind regcred.OriginKind `json:"kind"`
	Name string             `json:"name"`
	Attempt
	Reason          string            `json:"reason,omitempty"`   // why the most similar key does not match
	Findings        []finding.Finding `json:"findings,omitempty"` // lint findings about the source
	WithoutUsername int               `json:"noUser,omitempty"`   // number of credentials that have no user name

	Unreadable bool `json:"-"` // the pull secret could not be read from the API server
}

// Provider describes a provider and its attempt.
type Provider struct {
	regcred.ProviderExplanation
	Findings []finding.Finding `json:"findings"`
	Attempt  *Attempt          `json:"attempt,omitempty"` // set if the provider was called or skipped
}

// NewExplanation returns an explanation for req. Its lists are empty rather than nil,
// so that they become [] in JSON.
func NewExplanation(req regcred.Request, file ConfigFile) *Explanation {
	return &Explanation{
		Image:       req.Image,
		Registry:    req.Registry,
		Config:      file,
		Sources:     []Source{},
		Providers:   []Provider{},
		Credentials: []Credential{},
		Findings:    []finding.Finding{},
	}
}

// AddProviders adds the providers in ex with their matched patterns, and the lint findings. It
// needs no lookup.
func (r *Explanation) AddProviders(cfg *config.Config, ex regcred.Explanation, found []finding.Finding) {
	r.Repository = ex.Repository
	if r.Config.NoProviders != nil {
		return
	}
	r.Config.Hash = cfg.Hash()
	for _, p := range ex.Providers {
		r.Providers = append(r.Providers, Provider{ProviderExplanation: p, Findings: []finding.Finding{}})
	}
	if ex.Nearest >= 0 {
		r.Nearest = &ex.Nearest
	}
	r.addFindings(found)
}

// addFindings adds each finding to its provider, or to r.Findings if the finding is not about one
// provider.
func (r *Explanation) addFindings(findings []finding.Finding) {
	for _, f := range findings {
		i := slices.IndexFunc(r.Providers, func(p Provider) bool { return f.Provider != "" && p.Name == f.Provider })
		if i >= 0 {
			r.Providers[i].Findings = append(r.Providers[i].Findings, f)
		} else {
			r.Findings = append(r.Findings, f)
		}
	}
}

// CountWithoutUsername counts, for each source, the credentials without a user name.
func (r *Explanation) CountWithoutUsername() {
	for i := range r.Sources {
		s := &r.Sources[i]
		s.WithoutUsername = 0
		for _, c := range r.Credentials {
			if o := c.Source.PullSecret; c.HasNoUsername() && c.Source.Kind == s.Kind && (o == nil || strings.TrimPrefix(o.Namespace+"/"+o.Name, "/") == s.Name) {
				s.WithoutUsername++
			}
		}
	}
}

// NearestKeyHint explains why the key most similar to the repository does not match. It
// returns "" if there are no keys.
func NearestKeyHint(keys []string, repository string) string {
	at, err := location.Parse(repository)
	if err != nil {
		return ""
	}
	if len(keys) == 1 && keys[0] == location.HubKey {
		return fmt.Sprintf("its only credential is for Docker Hub (%s), not for %s: without --docker-server, kubectl create secret docker-registry uses Docker Hub", location.HubKey, at.Host)
	}
	best, near := "", 0
	for _, key := range keys {
		p, err := location.ParsePattern(key)
		if err != nil || dockerjson.DisplayKey(key)[0] != '"' {
			continue // the key is not a registry and could be a password
		}
		if m := diagnose.ComparePattern(p, at); m.Reason != "" && (best == "" || m.Similarity > near) {
			best, near = fmt.Sprintf("nearest is %q: %s", key, m.Reason), m.Similarity
		}
	}
	return best
}

// Title returns the name of the source for messages.
func (s *Source) Title() string {
	if s.Kind == regcred.FromPullSecret {
		return "pull secret " + s.Name
	}
	return s.Name
}
