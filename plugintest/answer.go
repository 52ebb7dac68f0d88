// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/diagnose"
	"github.com/regcred/regcred/plugin"
)

// The checks in this file examine the plugin's response.

// checkStage returns a check that fails if the response is rejected at the given stage.
func checkStage(stage plugin.Stage, ok, kubelet, fix string) func(*suite) []Finding {
	order := []plugin.Stage{plugin.StageOutput, plugin.StageAPIVersion, plugin.StageDecode, plugin.StageCacheKeyType}
	return func(s *suite) []Finding {
		r := s.baseRun()
		switch {
		case r.failedAt(stage):
			return newFinding(finding.SeverityError, r.action, r.describeOutcome(), kubelet, fix)
		case r.hasResponse() || r.failedAt(order[slices.Index(order, stage)+1:]...):
			return passFinding(r.action, "%s", ok)
		}
		return skipFinding("the plugin returned no response for %q; see the base-answer check", s.image)
	}
}

func checkDuration(s *suite, resp *plugin.Response) []Finding {
	const day = 24 * time.Hour
	did := s.baseRun().action
	switch d := resp.CacheDuration; {
	case s.isOutOfTree() && *d == 0:
		return newFinding(finding.SeverityWarning, did, "expirationTimestamp is missing or in the past",
			"A host that uses the out-of-tree protocol runs the plugin for every pull, and each run queries the token service.",
			"Set expirationTimestamp, with a time zone, to a time before the credential expires.")
	case d == nil:
		return newFinding(finding.SeverityInfo, did, "no cacheDuration",
			"The kubelet uses defaultCacheDuration from the configuration, regardless of when the credential expires.",
			"If the credential's lifetime is known, set cacheDuration to less than the remaining lifetime.")
	case *d < 0:
		return newFinding(finding.SeverityError, did, fmt.Sprintf("cacheDuration %v", *d),
			"The kubelet treats the response as expired and runs the plugin for every pull.",
			"For a credential that is about to expire, return \"0s\" or, better, get a new credential.")
	case *d == 0:
		return newFinding(finding.SeverityWarning, did, "cacheDuration 0s",
			"The kubelet runs the plugin for every pull, and each run queries the token service.",
			"Set cacheDuration to less than the credential's remaining lifetime; use 0s only for credentials that must not be cached.")
	case *d < time.Second:
		return newFinding(finding.SeverityError, did, fmt.Sprintf("cacheDuration %v", *d),
			"The kubelet runs the plugin for every pull.",
			"Check the unit; a number of seconds was probably interpreted as nanoseconds.")
	case *d > day:
		return newFinding(finding.SeverityWarning, did, fmt.Sprintf("cacheDuration %v", *d),
			"The kubelet caches the credential for more than a day and does not drop it when a registry rejects it.",
			"Set cacheDuration to less than the credential's remaining lifetime. Use a string such as \"6h0m0s\", not a number of nanoseconds.")
	default:
		return passFinding(did, "cacheDuration %v", *d)
	}
}

func checkEmpty(s *suite, resp *plugin.Response) []Finding {
	if len(resp.Auth) > 0 {
		return passFinding(s.baseRun().action, "%s", diagnose.FormatCount(len(resp.Auth), "auth key"))
	}
	severity, fix := finding.SeverityWarning, "If the plugin should serve the image but cannot, exit with a nonzero code and print the reason."
	if len(s.opts.Images) == 0 {
		severity, fix = finding.SeverityInfo, "This test was run without an image; specify one that the plugin serves."
	}
	return newFinding(severity, s.baseRun().action, "a response without a credential",
		"The kubelet caches the response for cacheDuration and pulls anonymously.", fix)
}

func checkEmptyGlobal(s *suite, _ *plugin.Response) []Finding {
	for _, r := range []*run{s.baseRun(), s.sendRequest(s.newRequestFor(lookalikeImage(s.image)))} {
		if r.hasResponse() && len(r.exchange.Response.Auth) == 0 && r.exchange.Response.CacheKeyType == plugin.CacheGlobal {
			return newFinding(finding.SeverityWarning, r.action, "a response with cacheKeyType Global and no credential",
				"Until the response expires, the kubelet does not call this plugin for any image, even if the plugin serves the image.",
				"Return cacheKeyType Image or Registry when you have no credential.")
		}
	}
	return passFinding(s.baseRun().action+", and for another registry", "no empty Global response")
}

func checkStable(s *suite, resp *plugin.Response) []Finding {
	const times = 3
	did := fmt.Sprintf("%s, %d times", s.baseRun().action, times)
	for nth := 1; nth < times; nth++ {
		r := s.repeatBase(nth)
		what := "no response: " + r.describeOutcome()
		if r.hasResponse() {
			what = describeNonPasswordDifference(resp, r.exchange.Response)
		}
		if what != "" {
			return newFinding(finding.SeverityWarning, did, fmt.Sprintf("run %d differs: %s", nth+1, what),
				"Different pulls of the same image might use different credentials.",
				"Always return the same response to the same request. Sort the candidate credentials before choosing one, and exit with an error instead of omitting a candidate.")
		}
	}
	if s.rotatesPasswords() {
		return passFinding(did, "the same auth keys and user names, but a new password each time")
	}
	return passFinding(did, "the same response")
}

func checkEmptyCredential(s *suite, resp *plugin.Response) []Finding {
	var findings []Finding
	for _, key := range authKeys(resp) {
		switch auth := resp.Auth[key]; {
		case auth.Equal(plugin.AuthConfig{}): // anonymous, on purpose
		case auth.Username == "":
			findings = append(findings, newFinding(finding.SeverityWarning, s.baseRun().action, "an empty user name"+underKey(key),
				"The kubelet passes the credential to the container runtime. containerd treats an empty user name as anonymous, regardless of the password.",
				"Return a user name, even if it is a placeholder. Omit the key if there is no credential.")...)
		case auth.Password.IsZero():
			findings = append(findings, newFinding(finding.SeverityError, s.baseRun().action, "a user name without a password"+underKey(key),
				"The kubelet sends the user name with an empty password, and the registry returns 401.",
				"Exit with an error if you have no password.")...)
		}
	}
	if len(findings) > 0 {
		return findings
	}
	return passFinding(s.baseRun().action, "every key has a user name and a password")
}

func checkWhitespace(s *suite, resp *plugin.Response) []Finding {
	for _, key := range authKeys(resp) {
		for _, part := range []struct{ name, text string }{{"user name", resp.Auth[key].Username}, {"password", resp.Auth[key].Password.Reveal()}} {
			if strings.TrimSpace(part.text) != part.text {
				return newFinding(finding.SeverityWarning, s.baseRun().action, fmt.Sprintf("the %s%s begins or ends with white space", part.name, underKey(key)),
					"The kubelet sends the value unchanged, and the registry returns 401.",
					"Trim values read from a file or command, because the trailing newline is not part of the credential.")
			}
		}
	}
	return passFinding(s.baseRun().action, "no leading or trailing white space in user names and passwords")
}

// underKey returns text that names the auth key of a credential, for messages. It returns ""
// for a response of the out-of-tree protocol, which has no keys.
func underKey(key string) string {
	if key == "" {
		return ""
	}
	return fmt.Sprintf(" under %q", redactKey(key))
}
