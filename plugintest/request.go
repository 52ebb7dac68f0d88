// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// Checks of how the plugin reads standard input.

func checkBase(s *suite) []Finding {
	r := s.base()
	switch {
	case r.answered():
		return pass(r.did, "%s", r.outcome())
	case r.ended() && r.crashed() == "":
		return found(finding.SeverityWarning, r.did, r.outcome(),
			"The kubelet gets no credential from this plugin, pulls anonymously, and calls the plugin again on the next pull.",
			"Specify an image that the plugin serves, and pass the arguments and environment that the plugin needs. Without access to the cloud, this failure is expected, and checks that need a response are skipped.")
	}
	return found(finding.SeverityError, r.did, r.outcome(),
		"The kubelet discards the response, logs the error, and pulls anonymously.",
		"See the other findings. The plugin did not start, hung, or returned invalid output.")
}

// checkVersion checks that a request in a version gets a response in the same version
// or an error.
func checkVersion(version string) func(*suite) []Finding {
	return func(s *suite) []Finding {
		base, r := s.base(), s.ask(s.request(version))
		switch {
		case r.answered():
			return pass(r.did, "%s", r.outcome())
		case r.failed(plugin.StageAPIVersion):
			return found(finding.SeverityError, r.did, "a response with a different apiVersion than the request",
				"The kubelet rejects the response, logs the apiVersion mismatch, and pulls anonymously.",
				"Copy apiVersion from the request to the response, or reject versions that you do not support.")
		case !r.ended():
			return skip("the result is inconclusive (%s); see the base-answer check", r.outcome())
		case r == base || !base.answered():
			return skip("the plugin fails with every version, so its support for %s is unknown; see the base-answer check", short(version))
		case version == plugin.V1:
			return found(finding.SeverityWarning, r.did, "refused: "+r.outcome(),
				"The plugin works only with an older apiVersion in the provider's entry, and never in service-account mode.",
				"Also support v1, which has every field of the older versions.")
		}
		return pass(r.did, "refused: %s", r.outcome())
	}
}

// rawRequest returns a request of the base version with additional members, which are
// inserted unchanged. Out-of-tree requests have neither kind nor version.
func (s *suite) rawRequest(kind, version, more string) string {
	if version == plugin.OutOfTree {
		return fmt.Sprintf(`{"image":%s%s}`, quote(s.image), more) + "\n"
	}
	return fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"image":%s%s}`, kind, version, quote(s.image), more) + "\n"
}

func quote(s string) string {
	data, _ := json.Marshal(s) // strings never fail
	return string(data)
}

// malformed is standard input that the plugin must reject.
type malformed struct {
	did    string
	stdin  func(*suite) string
	answer finding.Severity // severity if the plugin responds to it
	fix    string
}

func malformedUnknownVersion() malformed {
	return malformed{
		did:    "sent a request with version v9, which does not exist",
		stdin:  func(s *suite) string { return s.rawRequest(protocol.KindRequest, protocol.Group+"/v9", "") },
		answer: finding.SeverityWarning,
		fix:    "Reject unknown apiVersion values with a nonzero exit code.",
	}
}

func malformedKind() malformed {
	return malformed{
		did:    "sent a request of kind CredentialProviderQuestion",
		stdin:  func(s *suite) string { return s.rawRequest("CredentialProviderQuestion", s.version(), "") },
		answer: finding.SeverityWarning,
		fix:    "Exit with a nonzero code for any other kind.",
	}
}

func malformedGarbage() malformed {
	return malformed{
		did:    "sent the input of a docker credential helper (\"registry.example\") instead of a request",
		stdin:  func(*suite) string { return "registry.example\n" },
		answer: finding.SeverityWarning,
		fix:    "Parse standard input as JSON, and exit with a nonzero code if parsing fails.",
	}
}

func malformedEmpty() malformed {
	return malformed{
		did:    "closed standard input without sending data",
		stdin:  func(*suite) string { return "" },
		answer: finding.SeverityWarning,
		fix:    "If standard input is empty, exit with a nonzero code and print that a request is expected.",
	}
}

func malformedTruncated() malformed {
	return malformed{
		did: "sent a request truncated in the middle of the image name",
		stdin: func(s *suite) string {
			whole := s.rawRequest(protocol.KindRequest, s.version(), "")
			return whole[:strings.LastIndex(whole, `"`)-2]
		},
		answer: finding.SeverityWarning,
		fix:    "Decode all of standard input, and exit with a nonzero code if decoding fails.",
	}
}

func (m malformed) send(s *suite) *run { return s.send(m.did, s.version(), m.stdin(s)) }

// rejects checks that the plugin rejects a malformed request.
func rejects(m malformed) func(*suite) []Finding {
	return func(s *suite) []Finding {
		r := m.send(s)
		if f := r.unfit(); f != nil {
			return f
		}
		switch {
		case r.alike(s.base()):
			return skip("the plugin fails in the same way for a valid request; see the base-answer check")
		case r.x.ExitCode == 0 && r.silent():
			return found(m.answer, m.did, "exit code 0 and nothing on standard output",
				"The kubelet never sends this request, but other callers that send it treat exit code 0 as success.", m.fix)
		case r.x.ExitCode == 0:
			return found(m.answer, m.did, fmt.Sprintf("exit code 0 and %s on standard output", plural(len(r.x.Stdout.Reveal()), "byte")),
				"The kubelet never sends this request, but a caller that sends it by mistake gets a credential.", m.fix)
		}
		return pass(m.did, "refused: %s", r.outcome())
	}
}

// doubled returns requests with duplicates, which two parsers may interpret
// differently.
func doubled() []malformed {
	twice := func(s *suite) string {
		return s.rawRequest(protocol.KindRequest, s.version(), `,"image":"registry.example/somebody/else"`)
	}
	return []malformed{
		{did: "sent a request with two images", stdin: twice},
		{did: "sent a request followed by another document", stdin: func(s *suite) string {
			return s.rawRequest(protocol.KindRequest, s.version(), "") + "{}\n"
		}},
	}
}

func checkRequestStrict(s *suite) []Finding {
	var bad, skipped []Finding
	for _, m := range doubled() {
		m.answer = finding.SeverityInfo
		m.fix = "Decode strictly, and reject duplicate fields and trailing data."
		switch f := rejects(m)(s); f[0].Severity {
		case finding.SeverityOK:
		case finding.SeveritySkipped:
			skipped = f
		default:
			bad = append(bad, f...)
		}
	}
	switch {
	case bad != nil:
		return bad
	case skipped != nil:
		return skipped
	}
	return pass("sent a request with two images, and a request followed by another document", "both rejected")
}

func checkUnknownField(s *suite, base *plugin.Response) []Finding {
	r := s.send("sent a request with an unknown field", s.version(),
		s.rawRequest(protocol.KindRequest, s.version(), s.identityFields()+`,"futureField":{"list":["a",1,null,true]}`))
	switch {
	case r.hung():
		return hangs(r)
	case !r.answered():
		return found(finding.SeverityError, r.did, r.outcome(),
			"A newer kubelet that sends a new field gets no credential from this plugin.",
			"Ignore unknown fields. Decode requests without DisallowUnknownFields or a similar option.")
	}
	if what := s.difference(base, r.x.Response); what != "" {
		return found(finding.SeverityError, r.did, "the response differs from the base response: "+what,
			"A newer kubelet that sends a new field gets a different credential.", "Ignore unknown fields.")
	}
	return pass(r.did, "the same as the base response")
}

// identityFields returns the service-account fields of the base request as JSON text.
func (s *suite) identityFields() string {
	if !s.request(s.version()).token {
		return ""
	}
	return s.tokenFields()
}

func (s *suite) tokenFields() string {
	annotations, _ := json.Marshal(s.identity.annotations) // strings never fail
	return fmt.Sprintf(`,"serviceAccountToken":%s,"serviceAccountAnnotations":%s`, quote(s.identity.token.Reveal()), annotations)
}

// oversized is the size of the large request, in bytes.
const oversized = 4 << 20

func oversizedRun(s *suite) *run {
	return s.send("sent a 4 MiB request", s.version(),
		s.rawRequest(protocol.KindRequest, s.version(), `,"serviceAccountAnnotations":{"example.com/long":"`+strings.Repeat("x", oversized)+`"}`))
}

func checkOversized(s *suite) []Finding {
	r := oversizedRun(s)
	if f := r.unfit(); f != nil {
		return f
	}
	switch {
	case r.answered() || r.ended() && r.crashed() == "":
		return pass(r.did, "%s", r.outcome())
	case !r.ended() && !s.base().answered():
		return skip("the plugin fails in the same way for every request; see the base-answer check")
	}
	return found(finding.SeverityError, r.did, r.outcome(),
		"The kubelet never sends such a large request, but a caller that sends one gets neither a response nor an error message.",
		"Limit the size of standard input, and reject longer input with a one-line error.")
}

// normal returns an image as the kubelet sends it to a plugin. Invalid images are
// returned unchanged.
func normal(image string) string {
	if repository, err := match.Repository(image); err == nil {
		return repository
	}
	return image
}

// registry returns the host and port of an image.
func registry(image string) string {
	host, _, _ := strings.Cut(image, "/")
	return host
}

// inRegistry returns an image with the same path in another registry.
func inRegistry(image, host string) string {
	_, path, _ := strings.Cut(image, "/")
	return host + "/" + path
}

// lookalike returns the image in a registry whose name starts with the name of the
// image's registry. The domain is reserved (RFC 6761), so it has no owner.
func lookalike(image string) string {
	host, port, _ := strings.Cut(registry(image), ":")
	if host += ".conformance.invalid"; port != "" {
		host += ":" + port
	}
	return inRegistry(image, host)
}
