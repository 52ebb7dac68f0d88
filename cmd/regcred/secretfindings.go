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
	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/internal/report"
)

// secretTitle returns NAMESPACE/NAME. A secret from a file can have no namespace.
func secretTitle(s *regcred.PullSecret) string {
	return strings.TrimPrefix(s.Namespace+"/"+s.Name, "/")
}

// addSourceFindings adds the lint findings to each source, and the reason if no key
// matches.
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

// nodeFindings returns the lint findings for the docker config that the node uses.
func (s *session) nodeFindings(ctx context.Context, now time.Time) (list []finding.Finding) {
	if s.nodeConfig == nil {
		return nil
	}
	sets, _ := s.nodeConfig.Auths(ctx, "") // the lookup reports unreadable files
	for _, set := range sets {
		if found := doctor.DockerFindings(ctx, set.Origin.File, now); found != nil {
			list = append(list, found.Findings...)
		}
	}
	return list
}

// aboutImage reports whether a finding about a docker config is relevant for an image.
// If keys match, only findings about their entries are; otherwise only findings about
// the file and about keys are.
func aboutImage(f finding.Finding, matched []string) bool {
	_, rest, ok := strings.Cut(f.Path, "[")
	switch {
	case len(matched) == 0:
		return !ok || strings.HasPrefix(f.Rule, "docker-key-")
	case !ok:
		return false
	}
	key, _, _ := strings.Cut(strings.TrimPrefix(rest, "\""), "\"]")
	keys := location.Keys([]string{key})
	return !strings.HasPrefix(rest, "\"") || len(keys) == 1 && slices.Contains(matched, keys[0].String())
}

// noteSecrets prints the findings about pull secrets.
func (a *app) noteSecrets(secrets []regcred.PullSecret) {
	for i := range secrets {
		for _, f := range doctor.SecretFindings(&secrets[i], a.Now()) {
			if f.Severity != finding.SeverityInfo {
				a.Note("%s", f.String())
			}
		}
	}
}

// noteNamespaces prints pull secrets that are not in the pod's namespace. A secret from
// a file can have no namespace.
func (a *app) noteNamespaces(secrets []regcred.PullSecret, namespace string) {
	for _, s := range secrets {
		if s.Namespace != "" && s.Namespace != namespace {
			a.Note("pull secret %s is not in the pod's namespace %s, so the kubelet would not find it; it is used here anyway", secretTitle(&s), namespace)
		}
	}
}

// noteNode prints findings about the node's docker config that can explain the result. If
// other sources have credentials, it prints nothing.
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

// noted records that a text is printed, and reports whether it was printed before.
func (s *session) noted(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.printed[text]
	if s.printed == nil {
		s.printed = map[string]bool{}
	}
	s.printed[text] = true
	return before
}
