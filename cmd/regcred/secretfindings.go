// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/match"
)

// secretTitle names a pull secret. One from a file may have no namespace.
func secretTitle(s *regcred.PullSecret) string {
	return strings.TrimPrefix(s.Namespace+"/"+s.Name, "/")
}

// addSourceFindings gives each source what the linter has against it, and why none
// of its keys matches.
func (s *session) addSourceFindings(ctx context.Context, r *report.Explanation, now time.Time) {
	byTitle := map[string]*regcred.PullSecret{}
	for i := range s.req.PullSecrets {
		byTitle[secretTitle(&s.req.PullSecrets[i])] = &s.req.PullSecrets[i]
	}
	for i := range r.Sources {
		source := &r.Sources[i]
		if source.Outcome == report.Empty {
			source.Reason = report.NearestKey(source.Keys, r.Repository)
		}
		if source.Outcome == report.Empty && source.Kind == regcred.FromPullSecret && len(r.Credentials) == 0 {
			source.Fix = cmp.Or(source.Fix, doctor.SecretLacks(r.Repository))
		}
		switch secret := byTitle[source.Name]; {
		case source.Kind == regcred.FromPullSecret && secret != nil:
			source.Findings = doctor.SecretFindings(secret, now)
		case source.Kind == regcred.FromNode && s.nodeConfig != nil && source.Name == s.nodeConfig.Name():
			source.Findings = s.nodeFindings(ctx, now)
		}
	}
}

// nodeFindings are the linter's about the node's docker config file that is used.
func (s *session) nodeFindings(ctx context.Context, now time.Time) (list []finding.Finding) {
	if s.nodeConfig == nil {
		return nil
	}
	sets, _ := s.nodeConfig.Auths(ctx, "") // the lookup has told of what cannot be read
	for _, set := range sets {
		if found := doctor.DockerFindings(ctx, set.Origin.File, now); found != nil {
			list = append(list, found.Findings...)
		}
	}
	return list
}

// aboutImage reports whether a finding about a docker config may matter for an image,
// given the keys of it that match. Where one does, what is wrong with the file does
// not; where none does, what is wrong with a login does not, but for its key.
func aboutImage(f finding.Finding, matched []string) bool {
	_, rest, ok := strings.Cut(f.Path, "[")
	switch {
	case len(matched) == 0:
		return !ok || strings.HasPrefix(f.Rule, "docker-key-")
	case !ok:
		return false
	}
	key, _, _ := strings.Cut(strings.TrimPrefix(rest, "\""), "\"]")
	keys := match.Keys([]string{key})
	return !strings.HasPrefix(rest, "\"") || len(keys) == 1 && slices.Contains(matched, keys[0].String())
}

// noteSecrets tells of pull secrets that cannot work, or not as they read.
func (a *app) noteSecrets(secrets []regcred.PullSecret) {
	for i := range secrets {
		for _, f := range doctor.SecretFindings(&secrets[i], a.Now()) {
			if f.Severity != finding.SeverityInfo {
				a.Note("%s", f.String())
			}
		}
	}
}

// noteNamespaces tells of pull secrets that a pod of a namespace cannot have. Those
// of files may have none.
func (a *app) noteNamespaces(secrets []regcred.PullSecret, namespace string) {
	for _, s := range secrets {
		if s.Namespace != "" && s.Namespace != namespace {
			a.Note("pull secret %s is not in the pod's namespace %s, so the kubelet would not find it; it is used here anyway", secretTitle(&s), namespace)
		}
	}
}

// noteNode tells of what is wrong with the node's docker config where that may be
// why a lookup found what it found. A node whose providers answer has no use for one.
func (s *session) noteNode(ctx context.Context, a *app, res *regcred.Result) {
	var matched []string
	for _, c := range res.Credentials {
		if c.Origin.Kind == regcred.FromNode {
			matched = append(matched, c.Match)
		}
	}
	if len(matched) == 0 && len(res.Credentials) > 0 {
		return
	}
	for _, f := range s.nodeFindings(ctx, a.Now()) {
		if aboutImage(f, matched) && !s.noted(f.String()) {
			a.Note("%s", f.String())
		}
	}
}

// noted reports whether something has been said before, and that it is now.
func (s *session) noted(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.said[text]
	if s.said == nil {
		s.said = map[string]bool{}
	}
	s.said[text] = true
	return before
}
