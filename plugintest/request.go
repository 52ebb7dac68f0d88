// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/regcred/regcred/plugin"
)

// The checks of what the plugin makes of its standard input.

func checkBase(s *suite) []Finding {
	r := s.base()
	switch {
	case r.answered():
		return pass(r.did, "%s", r.outcome())
	case r.ended() && r.crashed() == "":
		return found(Warning, r.did, r.outcome(),
			"It gets no credential from this plugin, pulls anonymously, and asks again at the next pull.",
			"Name an image that the plugin serves, and give it the arguments and the environment that it needs. If there is no cloud here, this is as it should be; the checks that need an answer are skipped.")
	}
	return found(Error, r.did, r.outcome(),
		"It drops the answer, logs the error, and pulls anonymously.",
		"See the other findings; what cannot be started, hangs or cannot be read is never an answer.")
}

// checkVersion checks that a version is answered in itself, or refused.
func checkVersion(version string) func(*suite) []Finding {
	return func(s *suite) []Finding {
		base, r := s.base(), s.ask(s.question(version))
		switch {
		case r.answered():
			return pass(r.did, "%s", r.outcome())
		case r.failed(plugin.StageAPIVersion):
			return found(Error, r.did, "an answer whose apiVersion is not that of the request",
				"It drops the answer, logs that the apiVersion did not match, and pulls anonymously.",
				"Copy apiVersion from the request into the answer, or refuse versions that you do not answer in.")
		case !r.ended():
			return skip("it was not answered in a way that tells: see base-answer (%s)", r.outcome())
		case r == base || !base.answered():
			return skip("the plugin fails in every version, so this says nothing about %s: see base-answer", short(version))
		case version == plugin.V1:
			return found(Warning, r.did, "refused: "+r.outcome(),
				"It works only if apiVersion of the provider is an older one; service-account mode never does.",
				"Answer requests in v1 as well: v1 has every field of the older versions.")
		}
		return pass(r.did, "refused: %s", r.outcome())
	}
}

// rawRequest is a request of the base version with more members; text goes
// into the object as it is. The predecessor's request has neither kind nor
// version.
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

// malformed is standard input that is to be refused.
type malformed struct {
	did    string
	stdin  func(*suite) string
	answer Severity // of an answer to it
	fix    string
}

func malformedUnknownVersion() malformed {
	return malformed{
		did:    "asked in version v9, which does not exist",
		stdin:  func(s *suite) string { return s.rawRequest(plugin.KindRequest, plugin.Group+"/v9", "") },
		answer: Warning,
		fix:    "Check apiVersion against the versions that you know, and exit with another code than 0.",
	}
}

func malformedKind() malformed {
	return malformed{
		did:    "sent a request of kind CredentialProviderQuestion",
		stdin:  func(s *suite) string { return s.rawRequest("CredentialProviderQuestion", s.version(), "") },
		answer: Warning,
		fix:    "Check kind, and exit with another code than 0.",
	}
}

func malformedGarbage() malformed {
	return malformed{
		did:    "sent the line \"registry.example\", as to a docker credential helper",
		stdin:  func(*suite) string { return "registry.example\n" },
		answer: Warning,
		fix:    "Read standard input as JSON, and exit with another code than 0 if it is not.",
	}
}

func malformedEmpty() malformed {
	return malformed{
		did:    "closed standard input without a byte",
		stdin:  func(*suite) string { return "" },
		answer: Warning,
		fix:    "Refuse empty standard input: exit with another code than 0, and say that a request is expected there.",
	}
}

func malformedTruncated() malformed {
	return malformed{
		did: "sent a request that ends in the middle of the image",
		stdin: func(s *suite) string {
			whole := s.rawRequest(plugin.KindRequest, s.version(), "")
			return whole[:strings.LastIndex(whole, `"`)-2]
		},
		answer: Warning,
		fix:    "Decode the whole of standard input, and exit with another code than 0 if that fails.",
	}
}

func (m malformed) send(s *suite) *run { return s.send(m.did, s.version(), m.stdin(s)) }

// refused checks that a malformed request is refused.
func refused(m malformed) func(*suite) []Finding {
	return func(s *suite) []Finding {
		r := m.send(s)
		if f := r.unfit(); f != nil {
			return f
		}
		switch {
		case r.alike(s.base()):
			return skip("the plugin fails for this as it does for a request: see base-answer")
		case r.x.ExitCode == 0 && r.silent():
			return found(m.answer, m.did, "exit code 0 and nothing on standard output",
				"It never sends this; whoever does takes exit code 0 for success.", m.fix)
		case r.x.ExitCode == 0:
			return found(m.answer, m.did, fmt.Sprintf("exit code 0 and %s on standard output", plural(len(r.x.Stdout.Reveal()), "byte")),
				"It never sends this; whoever does by mistake is handed a credential.", m.fix)
		}
		return pass(m.did, "refused: %s", r.outcome())
	}
}

// doubled are requests that two readers may take for different ones.
func doubled() []malformed {
	twice := func(s *suite) string {
		return s.rawRequest(plugin.KindRequest, s.version(), `,"image":"registry.example/somebody/else"`)
	}
	return []malformed{
		{did: "sent a request with two images", stdin: twice},
		{did: "sent a request with another document behind it", stdin: func(s *suite) string {
			return s.rawRequest(plugin.KindRequest, s.version(), "") + "{}\n"
		}},
	}
}

func checkRequestStrict(s *suite) []Finding {
	var bad, skipped []Finding
	for _, m := range doubled() {
		m.answer = Info
		m.fix = "Decode strictly: refuse duplicate fields and what stands behind the request."
		switch f := refused(m)(s); f[0].Severity {
		case Pass:
		case Skip:
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
	return pass("sent a request with two images, and one with another document behind it", "both refused")
}

func checkUnknownField(s *suite, base *plugin.Response) []Finding {
	r := s.send("sent a request with a field that no version has yet", s.version(),
		s.rawRequest(plugin.KindRequest, s.version(), s.heldFields()+`,"futureField":{"list":["a",1,null,true]}`))
	switch {
	case r.hung():
		return hangs(r)
	case !r.answered():
		return found(Error, r.did, r.outcome(),
			"A later one that sends a further field gets no credential from this plugin.",
			"Ignore fields that you do not know: decode requests without DisallowUnknownFields or its like.")
	}
	if what := s.difference(base, r.x.Response); what != "" {
		return found(Error, r.did, "another answer than without it: "+what,
			"A later one that sends a further field gets another credential.", "Ignore fields that you do not know.")
	}
	return pass(r.did, "the same answer as without it")
}

// heldFields are the service-account fields of the base question, as text.
func (s *suite) heldFields() string {
	if !s.question(s.version()).token {
		return ""
	}
	return s.tokenFields()
}

func (s *suite) tokenFields() string {
	annotations, _ := json.Marshal(s.identity.annotations) // strings never fail
	return fmt.Sprintf(`,"serviceAccountToken":%s,"serviceAccountAnnotations":%s`, quote(s.identity.token.Reveal()), annotations)
}

// oversized is how long a request is made: more than any that a kubelet sends.
const oversized = 4 << 20

func oversizedRun(s *suite) *run {
	return s.send("sent a request of 4 MiB", s.version(),
		s.rawRequest(plugin.KindRequest, s.version(), `,"serviceAccountAnnotations":{"example.com/long":"`+strings.Repeat("x", oversized)+`"}`))
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
		return skip("it was answered as every request is: see base-answer")
	}
	return found(Error, r.did, r.outcome(),
		"It never sends as much, but whoever does gets neither an answer nor a reason.",
		"Bound what you read of standard input, and refuse what is longer with one line.")
}
