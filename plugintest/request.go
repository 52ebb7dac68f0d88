// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/diagnose"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// The checks in this file examine how the plugin reads standard input.

func checkBase(s *suite) []Finding {
	r := s.baseRun()
	switch {
	case r.hasResponse():
		return passFinding(r.action, "%s", r.describeOutcome())
	case r.exitedWithError() && r.describeCrash() == "":
		return newFinding(finding.SeverityWarning, r.action, r.describeOutcome(),
			"The kubelet gets no credential from this plugin, pulls anonymously, and calls the plugin again on the next pull.",
			"Specify an image that the plugin serves, and pass the arguments and environment that the plugin needs. Without access to the cloud, run only checks that need no response.")
	}
	return newFinding(finding.SeverityError, r.action, r.describeOutcome(),
		"The kubelet discards the response, logs the error, and pulls anonymously.",
		"See the other findings. The plugin did not start, hung, or returned invalid output.")
}

// checkVersion returns a check that a request in a version gets a response in the same version
// or an error.
func checkVersion(version string) func(*suite) []Finding {
	return func(s *suite) []Finding {
		base, r := s.baseRun(), s.sendRequest(s.newRequest(version))
		switch {
		case r.hasResponse():
			return passFinding(r.action, "%s", r.describeOutcome())
		case r.failedAt(plugin.StageAPIVersion):
			return newFinding(finding.SeverityError, r.action, "a response with a different apiVersion than the request",
				"The kubelet rejects the response, logs the apiVersion mismatch, and pulls anonymously.",
				"Copy apiVersion from the request to the response, or reject versions that you do not support.")
		case !r.exitedWithError():
			return skipFinding("the result is inconclusive (%s); see the base-answer check", r.describeOutcome())
		case r == base || !base.hasResponse():
			return skipFinding("the plugin fails with every version, so its support for %s is unknown; see the base-answer check", versionName(version))
		case version == plugin.V1:
			return newFinding(finding.SeverityWarning, r.action, "refused: "+r.describeOutcome(),
				"The plugin works only with an older apiVersion in the provider's entry, and never in service-account mode.",
				"Also support v1, which has every field of the older versions.")
		}
		return passFinding(r.action, "refused: %s", r.describeOutcome())
	}
}

// rawRequest returns a request as JSON text. The text more, with additional fields, is inserted
// unchanged. Requests of the out-of-tree protocol have neither kind nor apiVersion.
func (s *suite) rawRequest(kind, version, more string) string {
	if version == plugin.OutOfTree {
		return fmt.Sprintf(`{"image":%s%s}`, quoteJSON(s.image), more) + "\n"
	}
	return fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"image":%s%s}`, kind, version, quoteJSON(s.image), more) + "\n"
}

func quoteJSON(s string) string {
	data, _ := json.Marshal(s) // strings can always be marshaled
	return string(data)
}

// malformedInput is standard input that the plugin must reject.
type malformedInput struct {
	action   string
	stdin    func(*suite) string
	severity finding.Severity // severity of a response to this input
	fix      string
}

var (
	unknownVersionInput = malformedInput{"sent a request with version v9, which does not exist",
		func(s *suite) string { return s.rawRequest(protocol.KindRequest, protocol.Group+"/v9", "") },
		finding.SeverityWarning, "Reject unknown apiVersion values with a nonzero exit code."}
	wrongKindInput = malformedInput{"sent a request of kind CredentialProviderQuestion",
		func(s *suite) string { return s.rawRequest("CredentialProviderQuestion", s.baseVersion(), "") },
		finding.SeverityWarning, "Exit with a nonzero code for any other kind."}
	garbageInput = malformedInput{"sent the input of a docker credential helper (\"registry.example\") instead of a request",
		func(*suite) string { return "registry.example\n" },
		finding.SeverityWarning, "Parse standard input as JSON, and exit with a nonzero code if parsing fails."}
	emptyInput = malformedInput{"closed standard input without sending data",
		func(*suite) string { return "" },
		finding.SeverityWarning, "If standard input is empty, exit with a nonzero code and print that a request is expected."}
	truncatedInput = malformedInput{"sent a request truncated in the middle of the image name",
		func(s *suite) string {
			whole := s.rawRequest(protocol.KindRequest, s.baseVersion(), "")
			return whole[:strings.LastIndex(whole, `"`)-2]
		},
		finding.SeverityWarning, "Decode all of standard input, and exit with a nonzero code if decoding fails."}
)

// ambiguousInputs are requests with a duplicate field or a second document. Two parsers may
// interpret them differently.
var ambiguousInputs = []malformedInput{
	{"sent a request with two images",
		func(s *suite) string {
			return s.rawRequest(protocol.KindRequest, s.baseVersion(), `,"image":"registry.example/somebody/else"`)
		},
		finding.SeverityInfo, "Decode strictly, and reject duplicate fields and trailing data."},
	{"sent a request followed by another document",
		func(s *suite) string { return s.rawRequest(protocol.KindRequest, s.baseVersion(), "") + "{}\n" },
		finding.SeverityInfo, "Decode strictly, and reject duplicate fields and trailing data."},
}

func (m malformedInput) send(s *suite) *run { return s.sendRaw(m.action, s.baseVersion(), m.stdin(s)) }

func checkRejects(m malformedInput) func(*suite) []Finding {
	return func(s *suite) []Finding {
		r := m.send(s)
		if f := r.unusableFinding(); f != nil {
			return f
		}
		switch {
		case r.failedAlike(s.baseRun()):
			return skipFinding("the plugin fails in the same way for a valid request; see the base-answer check")
		case r.exchange.ExitCode == 0 && r.hasNoOutput():
			return newFinding(m.severity, m.action, "exit code 0 and nothing on standard output",
				"The kubelet never sends this request, but other callers that send it treat exit code 0 as success.", m.fix)
		case r.exchange.ExitCode == 0:
			return newFinding(m.severity, m.action, fmt.Sprintf("exit code 0 and %s on standard output", diagnose.FormatCount(len(r.exchange.Stdout.Reveal()), "byte")),
				"The kubelet never sends this request, but a caller that sends it by mistake gets a credential.", m.fix)
		}
		return passFinding(m.action, "refused: %s", r.describeOutcome())
	}
}

func checkRequestStrict(s *suite) []Finding {
	var bad, skipped []Finding
	for _, m := range ambiguousInputs {
		switch f := checkRejects(m)(s); f[0].Severity {
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
	return passFinding("sent a request with two images, and a request followed by another document", "both rejected")
}

func checkUnknownField(s *suite, base *plugin.Response) []Finding {
	fields := `,"futureField":{"list":["a",1,null,true]}`
	if s.newRequest(s.baseVersion()).token {
		fields = s.tokenFields() + fields
	}
	r := s.sendRaw("sent a request with an unknown field", s.baseVersion(), s.rawRequest(protocol.KindRequest, s.baseVersion(), fields))
	switch {
	case r.isHung():
		return hungFinding(r)
	case !r.hasResponse():
		return newFinding(finding.SeverityError, r.action, r.describeOutcome(),
			"A newer kubelet that sends a new field gets no credential from this plugin.",
			"Ignore unknown fields. Decode requests without DisallowUnknownFields or a similar option.")
	}
	if what := s.describeDifference(base, r.exchange.Response); what != "" {
		return newFinding(finding.SeverityError, r.action, "the response differs from the base response: "+what,
			"A newer kubelet that sends a new field gets a different credential.", "Ignore unknown fields.")
	}
	return passFinding(r.action, "the same as the base response")
}

// tokenFields returns the service-account fields of a request as JSON text for rawRequest.
func (s *suite) tokenFields() string {
	annotations, _ := json.Marshal(s.identity.annotations) // strings can always be marshaled
	return fmt.Sprintf(`,"serviceAccountToken":%s,"serviceAccountAnnotations":%s`, quoteJSON(s.identity.token.Reveal()), annotations)
}

const oversizedRequestSize = 4 << 20

func runOversized(s *suite) *run {
	return s.sendRaw("sent a 4 MiB request", s.baseVersion(),
		s.rawRequest(protocol.KindRequest, s.baseVersion(), `,"serviceAccountAnnotations":{"example.com/long":"`+strings.Repeat("x", oversizedRequestSize)+`"}`))
}

func checkOversized(s *suite) []Finding {
	r := runOversized(s)
	if f := r.unusableFinding(); f != nil {
		return f
	}
	switch {
	case r.hasResponse() || r.exitedWithError() && r.describeCrash() == "":
		return passFinding(r.action, "%s", r.describeOutcome())
	case !r.exitedWithError() && !s.baseRun().hasResponse():
		return skipFinding("the plugin fails in the same way for every request; see the base-answer check")
	}
	return newFinding(finding.SeverityError, r.action, r.describeOutcome(),
		"The kubelet never sends such a large request, but a caller that sends one gets neither a response nor an error message.",
		"Limit the size of standard input, and reject longer input with a one-line error.")
}

// normalizeImage returns the name of an image that the kubelet sends to a plugin. It returns an
// invalid image unchanged.
func normalizeImage(image string) string {
	if repository, err := match.Repository(image); err == nil {
		return repository
	}
	return image
}

func registryOf(image string) string {
	host, _, _ := strings.Cut(image, "/")
	return host
}

// replaceRegistry returns the image with the same path in the registry host.
func replaceRegistry(image, host string) string {
	_, path, _ := strings.Cut(image, "/")
	return host + "/" + path
}

// lookalikeImage returns the image in a registry whose name starts with the name of the image's
// registry. The domain of that registry is reserved (RFC 6761), so it has no owner.
func lookalikeImage(image string) string {
	host, port, _ := strings.Cut(registryOf(image), ":")
	if host += ".conformance.invalid"; port != "" {
		host += ":" + port
	}
	return replaceRegistry(image, host)
}
