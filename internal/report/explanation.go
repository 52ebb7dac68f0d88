// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package report

import (
	"fmt"
	"slices"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/dockerconfig"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/route"
	"github.com/regcred/regcred/match"
)

// Explanation is the result of "regcred explain -o json"; the text is made
// from it too.
type Explanation struct {
	Image       string            `json:"image,omitempty"`
	Registry    string            `json:"registry,omitempty"`
	Repository  string            `json:"repository"` // as providers see it; for a registry its host
	Config      File              `json:"config"`
	BinDir      string            `json:"binDir,omitempty"`
	Environment string            `json:"environment"`       // "caller" or "kubelet pid N"
	Subject     *Subject          `json:"subject,omitempty"` // for whom, if --pod or --service-account says so
	DryRun      bool              `json:"dryRun"`
	Sources     []Source          `json:"sources"` // pull secrets and the node's docker config files
	Providers   []Provider        `json:"providers"`
	Nearest     *int              `json:"nearest,omitempty"` // index in Providers, if none matches and one has a pattern like the image
	Credentials []Credential      `json:"credentials"`
	Findings    []finding.Finding `json:"findings"`        // those that concern no provider in particular
	Route       *route.Route      `json:"route,omitempty"` // which hosts the node's runtime asks, if its files say something of the image
	Verdict     Verdict           `json:"verdict"`
}

// File is where the configuration is.
type File struct {
	Path string `json:"path"`
	Hash string `json:"hash,omitempty"`
	From string `json:"from"` // where the paths were taken from

	Without any `json:"without,omitempty"` // not nil: there is none, and what is known of that
}

// Subject is the pod or service account for which an image is looked up.
type Subject struct {
	Pod            *Object  `json:"pod,omitempty"`
	Node           string   `json:"node,omitempty"`           // on which the pod is
	ServiceAccount *Object  `json:"serviceAccount,omitempty"` // missing for a pod without one
	PullSecrets    []string `json:"pullSecrets"`              // names, also of those that cannot be read
	APIServer      string   `json:"apiServer"`
	From           string   `json:"from"`                  // where address and identity are from
	Differences    []string `json:"differences,omitempty"` // from what a kubelet does
}

// Source is a source beside the providers, and what became of it.
type Source struct {
	Kind regcred.OriginKind `json:"kind"`
	Name string             `json:"name"`
	Attempt
	Reason   string            `json:"reason,omitempty"`   // why the key that came nearest does not match
	Findings []finding.Finding `json:"findings,omitempty"` // of a pull secret
	NoUser   int               `json:"noUser,omitempty"`   // how many of its credentials have no user name

	Unread bool `json:"-"` // a pull secret that is not to be had, in contrast to one that does not parse
}

// Provider is a provider, and what became of it.
type Provider struct {
	regcred.ProviderExplanation
	Findings []finding.Finding `json:"findings"`
	Attempt  *Attempt          `json:"attempt,omitempty"` // if it was asked, or skipped
}

// NewExplanation begins to explain what req asks about. It has none but empty
// lists: in JSON they read [].
func NewExplanation(req regcred.Request, file File) *Explanation {
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

// Match fills in what does not need a lookup: who matches, which ex says, and
// what the linter has found, which [Findings] are.
func (r *Explanation) Match(cfg *config.Config, ex regcred.Explanation, found []finding.Finding) {
	r.Repository = ex.Repository
	if r.Config.Without != nil {
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

// addFindings gives each finding to the provider that it is about.
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

// CountNoUser counts, for each source, the credentials without a user name.
func (r *Explanation) CountNoUser() {
	for i := range r.Sources {
		s := &r.Sources[i]
		s.NoUser = 0
		for _, c := range r.Credentials {
			if c.Anonymous() && c.Source.Kind == s.Kind && (c.Source.PullSecret == nil || c.Source.PullSecret.title() == s.Name) {
				s.NoUser++
			}
		}
	}
}

// NearestKey says why the key that comes nearest to the repository does not match;
// "" if there are none.
func NearestKey(keys []string, repository string) string {
	at, err := match.ParseLocation(repository)
	if err != nil {
		return ""
	}
	if len(keys) == 1 && keys[0] == match.HubKey {
		return fmt.Sprintf("its only credential is for Docker Hub (%s), not for %s: without --docker-server, kubectl create secret docker-registry uses Docker Hub", match.HubKey, at.Host)
	}
	best, near := "", 0
	for _, key := range keys {
		p, err := match.Parse(key)
		if err != nil || dockerconfig.ShowKey(key)[0] != '"' {
			continue // it is no registry, and perhaps a password
		}
		if m := p.Mismatch(at); m.Reason != "" && (best == "" || m.Near > near) {
			best, near = fmt.Sprintf("nearest is %q: %s", key, m.Reason), m.Near
		}
	}
	return best
}

// Title names a source among others.
func (s *Source) Title() string {
	if s.Kind == regcred.FromPullSecret {
		return "pull secret " + s.Name
	}
	return s.Name
}
