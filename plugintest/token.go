// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/plugin"
)

// Checks of service-account mode (KEP-4412), which exists only in v1.

// withToken sends the request with a token.
func (s *suite) withToken() *run {
	return s.ask(request{version: plugin.V1, image: s.image, token: true, annotations: true})
}

func (s *suite) withoutToken() *run {
	return s.ask(request{version: plugin.V1, image: s.image})
}

// annotated sends a request with annotations but without a token.
func (s *suite) annotated() *run {
	return s.ask(request{version: plugin.V1, image: s.image, annotations: true})
}

func checkTokenAbsent(s *suite) []Finding {
	runs := []*run{s.withoutToken(), s.annotated()}
	for _, r := range runs {
		switch {
		case r.hung():
			return hangs(r)
		case r.answered() && s.required() && len(pick(r.x.Response, s.image)) > 0:
			return found(finding.SeverityError, r.did, "a credential without the required token",
				"With requireServiceAccount: true, the kubelet does not run the plugin without a token, but other hosts might run it and use the response.",
				"Without a token, exit with a nonzero code and print that a token is required.")
		case r.crashed() != "":
			return found(finding.SeverityError, r.did, r.outcome(),
				"For a pod without a service account, the kubelet gets neither a credential nor an error message.",
				"Check that the request contains a token before using it.")
		case !r.answered() && !r.ended() && s.base().answered():
			return found(finding.SeverityError, r.did, r.outcome(),
				"The kubelet gets no credential for a pod without a service account.",
				"Return the node's credential, or exit with a nonzero code and print the reason.")
		}
	}
	return pass(runs[1].did, "%s", runs[1].outcome())
}

// reason returns why there is no response to a request with the token.
func (s *suite) reason(r *run) string {
	if base := s.base(); r == base || r.alike(base) {
		return "see the base-answer check"
	}
	return "with it, " + r.outcome()
}

func (s *suite) required() bool {
	return s.opts.ServiceAccount != nil && s.opts.ServiceAccount.Required
}

func checkTokenUsed(s *suite) []Finding {
	with, without := s.withToken(), s.withoutToken()
	did := with.did + ", and without"
	switch {
	case !with.answered() && !without.answered():
		return skip("no response with or without the token: %s", s.reason(with))
	case !with.answered():
		return pass(did, "no response with the token: %s", with.outcome())
	case !without.answered():
		return pass(did, "no response without the token: %s", without.outcome())
	}
	if what := s.difference(without.x.Response, with.x.Response); what != "" {
		return pass(did, "with the token, %s", what)
	}
	if s.rotating() {
		return skip("cannot determine whether the password depends on the token, because each request gets a new password")
	}
	if s.opts.ServiceAccount == nil {
		return pass(did, "the same response, so this plugin needs no tokenAttributes")
	}
	return found(finding.SeverityWarning, did, "the same response",
		"The kubelet requests a token and runs the plugin for each service account, but always gets the same credential.",
		"Configure this plugin without tokenAttributes.")
}

func checkTokenEcho(s *suite) []Finding {
	r := s.withToken()
	if !r.answered() {
		return skip("no response with %s: %s", s.identity.title, s.reason(r))
	}
	if len(r.x.Response.Auth) == 0 {
		return skip("the response with %s has no credential", s.identity.title)
	}
	if !s.echoes(r.x.Response) {
		return pass(r.did, "the password is not the token")
	}
	const kubelet = "The kubelet rejects the response unless tokenAttributes.cacheType is Token."
	switch {
	case s.opts.ServiceAccount != nil && s.opts.ServiceAccount.CacheType == config.CachePerToken:
		return pass(r.did, "the token itself as the password (allowed because cacheType is Token)")
	case s.opts.ServiceAccount != nil && s.opts.ServiceAccount.CacheType == config.CachePerServiceAccount:
		return found(finding.SeverityError, r.did, "the token itself as the password, with cacheType ServiceAccount", kubelet,
			"Set cacheType: Token for this plugin.")
	}
	return found(finding.SeverityWarning, r.did, "the token itself as the password", kubelet,
		"Document that the plugin needs cacheType: Token, or exchange the token for a registry credential.")
}

func (s *suite) echoes(resp *plugin.Response) bool {
	for _, auth := range resp.Auth {
		if strings.TrimSpace(auth.Password.Reveal()) == s.identity.token.Reveal() {
			return true
		}
	}
	return false
}

// early sends the service-account fields in a version that does not define them.
func (s *suite) early(version string) *run {
	did := fmt.Sprintf("sent a %s request with a token and annotations", short(version))
	return s.send(did, version, s.rawRequest(protocol.KindRequest, version, s.tokenFields()))
}

func checkTokenOldVersion(s *suite) []Finding {
	var fine []string
	for _, version := range []string{plugin.V1Beta1, plugin.V1Alpha1} {
		plain, r := s.ask(s.request(version)), s.early(version)
		switch {
		case r.failed(plugin.StageStart):
			return notStarted()
		case r.hung():
			return found(finding.SeverityWarning, r.did, "it did not exit: "+r.outcome(), "The kubelet never sends this request.", "Ignore fields that are not part of the request's API version.")
		case !r.answered():
			continue
		}
		what := ""
		if plain.answered() {
			what = s.difference(plain.x.Response, r.x.Response)
		}
		if s.echoes(r.x.Response) {
			what = "the token is the password"
		}
		if what != "" {
			return found(finding.SeverityWarning, r.did, "the token is used: "+what,
				"The kubelet never sends this request. A plugin that accepts a token in an older version bypasses the kubelet's rules for tokens.",
				"Read the service account fields only in v1 requests.")
		}
		fine = append(fine, short(version))
	}
	if len(fine) == 0 {
		return skip("the plugin supports neither v1beta1 nor v1alpha1")
	}
	slices.Sort(fine)
	return pass("sent a token in "+strings.Join(fine, " and "), "it is ignored")
}

// identity is the service account used in requests.
type identity struct {
	token       plugin.Secret
	annotations map[string]string
	title       string // description of the token
}

func newIdentity(given *ServiceAccount, now time.Time) identity {
	id := identity{annotations: map[string]string{"example.com/role": "puller"}}
	audience := "conformance.example"
	if given != nil {
		id = identity{given.Token, given.Annotations, "the given service account token"}
		audience = cmp.Or(given.Audience, audience)
	}
	if id.token.IsZero() {
		id.token, id.title = newToken(audience, now), "a generated service account token"
	}
	return id
}

// secrets returns the token and, separately, its signature.
func (id identity) secrets() []plugin.Secret {
	token := id.token.Reveal()
	return []plugin.Secret{id.token, plugin.NewSecret(token[strings.LastIndexByte(token, '.')+1:])}
}

// newToken returns a token in an API server's format (KEP-1205) with a random
// signature.
func newToken(audience string, now time.Time) plugin.Secret {
	signature := make([]byte, 256) // RS256
	rand.Read(signature)           // never fails
	object := func(name string) map[string]any { return map[string]any{"name": name, "uid": rand.Text()} }
	pod := map[string]any{
		"namespace":      "conformance",
		"pod":            object("app"),
		"serviceaccount": object("app"),
	}
	return plugin.NewSecret(strings.Join([]string{
		segment(map[string]any{"alg": "RS256", "kid": rand.Text()}),
		segment(map[string]any{
			"aud":           []string{audience},
			"exp":           now.Add(time.Hour).Unix(),
			"iat":           now.Unix(),
			"nbf":           now.Unix(),
			"iss":           "https://kubernetes.default.svc.cluster.local",
			"jti":           rand.Text(),
			"kubernetes.io": pod,
			"sub":           "system:serviceaccount:conformance:app",
		}),
		base64.RawURLEncoding.EncodeToString(signature),
	}, "."))
}

func segment(claims map[string]any) string {
	data, _ := json.Marshal(claims) // the types always encode as valid JSON
	return base64.RawURLEncoding.EncodeToString(data)
}
