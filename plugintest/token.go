// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/plugin"
)

// The checks in this file examine service-account mode (KEP-4412), which exists only in v1.

// runV1 sends a v1 request with or without a token and annotations.
func (s *suite) runV1(token, annotations bool) *run {
	return s.sendRequest(request{version: plugin.V1, image: s.image, token: token, annotations: annotations})
}

func checkTokenAbsent(s *suite) []Finding {
	runs := []*run{s.runV1(false, false), s.runV1(false, true)}
	for _, r := range runs {
		switch {
		case r.isHung():
			return hungFinding(r)
		case r.hasResponse() && s.account.Required && len(selectCredentials(r.exchange.Response, s.image)) > 0:
			return newFinding(finding.SeverityError, r.action, "a credential without the required token",
				"With requireServiceAccount: true, the kubelet does not run the plugin without a token, but other hosts might run it and use the response.",
				"Without a token, exit with a nonzero code and print that a token is required.")
		case r.describeCrash() != "":
			return newFinding(finding.SeverityError, r.action, r.describeOutcome(),
				"For a pod without a service account, the kubelet gets neither a credential nor an error message.",
				"Check that the request contains a token before using it.")
		case !r.hasResponse() && !r.exitedWithError() && s.baseRun().hasResponse():
			return newFinding(finding.SeverityError, r.action, r.describeOutcome(),
				"The kubelet gets no credential for a pod without a service account.",
				"Return the node's credential, or exit with a nonzero code and print the reason.")
		}
	}
	return passFinding(runs[1].action, "%s", runs[1].describeOutcome())
}

// noResponseReason returns why a request with the token got no response.
func (s *suite) noResponseReason(r *run) string {
	if base := s.baseRun(); r == base || r.failedAlike(base) {
		return "see the base-answer check"
	}
	return "with it, " + r.describeOutcome()
}

func checkTokenUsed(s *suite) []Finding {
	with, without := s.runV1(true, true), s.runV1(false, false)
	did := with.action + ", and without"
	switch {
	case !with.hasResponse() && !without.hasResponse():
		return skipFinding("no response with or without the token: %s", s.noResponseReason(with))
	case !with.hasResponse():
		return passFinding(did, "no response with the token: %s", with.describeOutcome())
	case !without.hasResponse():
		return passFinding(did, "no response without the token: %s", without.describeOutcome())
	}
	if what := s.describeDifference(without.exchange.Response, with.exchange.Response); what != "" {
		return passFinding(did, "with the token, %s", what)
	}
	if s.rotatesPasswords() {
		return skipFinding("cannot determine whether the password depends on the token, because each request gets a new password")
	}
	if s.opts.ServiceAccount == nil {
		return passFinding(did, "the same response, so this plugin needs no tokenAttributes")
	}
	return newFinding(finding.SeverityWarning, did, "the same response",
		"The kubelet requests a token and runs the plugin for each service account, but always gets the same credential.",
		"Configure this plugin without tokenAttributes.")
}

func checkTokenEcho(s *suite) []Finding {
	r := s.runV1(true, true)
	if !r.hasResponse() {
		return skipFinding("no response with %s: %s", s.identity.tokenDescription, s.noResponseReason(r))
	}
	if len(r.exchange.Response.Auth) == 0 {
		return skipFinding("the response with %s has no credential", s.identity.tokenDescription)
	}
	if !s.echoesToken(r.exchange.Response) {
		return passFinding(r.action, "the password is not the token")
	}
	const kubelet = "The kubelet rejects the response unless tokenAttributes.cacheType is Token."
	switch {
	case s.account.CacheType == config.CachePerToken:
		return passFinding(r.action, "the token itself as the password (allowed because cacheType is Token)")
	case s.account.CacheType == config.CachePerServiceAccount:
		return newFinding(finding.SeverityError, r.action, "the token itself as the password, with cacheType ServiceAccount", kubelet,
			"Set cacheType: Token for this plugin.")
	}
	return newFinding(finding.SeverityWarning, r.action, "the token itself as the password", kubelet,
		"Document that the plugin needs cacheType: Token, or exchange the token for a registry credential.")
}

func (s *suite) echoesToken(resp *plugin.Response) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(resp.Auth)), func(auth plugin.AuthConfig) bool {
		return strings.TrimSpace(auth.Password.Reveal()) == s.identity.token.Reveal()
	})
}

// runUnsupportedVersion sends the service-account fields in a version that does not have these
// fields.
func (s *suite) runUnsupportedVersion(version string) *run {
	did := fmt.Sprintf("sent a %s request with a token and annotations", versionName(version))
	return s.sendRaw(did, version, s.rawRequest(protocol.KindRequest, version, s.tokenFields()))
}

func checkTokenOldVersion(s *suite) []Finding {
	var fine []string
	for _, version := range []string{plugin.V1Beta1, plugin.V1Alpha1} {
		plain, r := s.sendRequest(s.newRequest(version)), s.runUnsupportedVersion(version)
		switch {
		case r.failedAt(plugin.StageStart):
			return notStartedFinding()
		case r.isHung():
			return newFinding(finding.SeverityWarning, r.action, "it did not exit: "+r.describeOutcome(), "The kubelet never sends this request.", "Ignore fields that are not part of the request's API version.")
		case !r.hasResponse():
			continue
		}
		what := ""
		if plain.hasResponse() {
			what = s.describeDifference(plain.exchange.Response, r.exchange.Response)
		}
		if s.echoesToken(r.exchange.Response) {
			what = "the token is the password"
		}
		if what != "" {
			return newFinding(finding.SeverityWarning, r.action, "the token is used: "+what,
				"The kubelet never sends this request. A plugin that accepts a token in an older version bypasses the kubelet's rules for tokens.",
				"Read the service account fields only in v1 requests.")
		}
		fine = append(fine, versionName(version))
	}
	if len(fine) == 0 {
		return skipFinding("the plugin supports neither v1beta1 nor v1alpha1")
	}
	slices.Sort(fine)
	return passFinding("sent a token in "+strings.Join(fine, " and "), "it is ignored")
}

type identity struct {
	token            plugin.Secret
	annotations      map[string]string
	tokenDescription string // for messages
}

func makeIdentity(given *ServiceAccount, now time.Time) identity {
	id := identity{annotations: map[string]string{"example.com/role": "puller"}}
	audience := "conformance.example"
	if given != nil {
		id = identity{given.Token, given.Annotations, "the given service account token"}
		audience = cmp.Or(given.Audience, audience)
	}
	if id.token.IsZero() {
		id.token, id.tokenDescription = newToken(audience, now), "a generated service account token"
	}
	return id
}

// secretValues returns the token and, as a separate secret, the token's signature.
func (id identity) secretValues() []plugin.Secret {
	token := id.token.Reveal()
	return []plugin.Secret{id.token, plugin.NewSecret(token[strings.LastIndexByte(token, '.')+1:])}
}

// newToken returns a token with a random signature, in the format of an API server's tokens
// (KEP-1205).
func newToken(audience string, now time.Time) plugin.Secret {
	signature := make([]byte, 256) // RS256
	rand.Read(signature)           // never fails
	object := func(name string) map[string]any { return map[string]any{"name": name, "uid": rand.Text()} }
	return plugin.NewSecret(strings.Join([]string{
		encodeJWTSegment(map[string]any{"alg": "RS256", "kid": rand.Text()}),
		encodeJWTSegment(map[string]any{
			"aud":           []string{audience},
			"exp":           now.Add(time.Hour).Unix(),
			"iat":           now.Unix(),
			"nbf":           now.Unix(),
			"iss":           "https://kubernetes.default.svc.cluster.local",
			"jti":           rand.Text(),
			"kubernetes.io": map[string]any{"namespace": "conformance", "pod": object("app"), "serviceaccount": object("app")},
			"sub":           "system:serviceaccount:conformance:app",
		}),
		base64.RawURLEncoding.EncodeToString(signature),
	}, "."))
}

func encodeJWTSegment(claims map[string]any) string {
	data, _ := json.Marshal(claims) // claims contains only types that can be marshaled
	return base64.RawURLEncoding.EncodeToString(data)
}
