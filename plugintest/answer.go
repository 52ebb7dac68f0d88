// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/plugin"
)

// Response checks.

// checkStage checks that decoding the response does not fail at a stage.
func checkStage(stage plugin.Stage, ok, kubelet, fix string) func(*suite) []Finding {
	order := []plugin.Stage{plugin.StageOutput, plugin.StageAPIVersion, plugin.StageDecode, plugin.StageCacheKeyType}
	return func(s *suite) []Finding {
		r := s.base()
		switch {
		case r.failed(stage):
			return found(finding.SeverityError, r.did, r.outcome(), kubelet, fix)
		case r.answered() || r.failed(order[slices.Index(order, stage)+1:]...):
			return pass(r.did, "%s", ok)
		}
		return skip("the plugin returned no response for %q; see the base-answer check", s.image)
	}
}

func checkDuration(s *suite, resp *plugin.Response) []Finding {
	const day = 24 * time.Hour
	did := s.base().did
	switch d := resp.CacheDuration; {
	case s.outOfTree() && *d == 0:
		return found(finding.SeverityWarning, did, "expirationTimestamp is missing or in the past",
			"A host that uses the out-of-tree protocol runs the plugin for every pull, and each run queries the token service.",
			"Set expirationTimestamp, with a time zone, to a time before the credential expires.")
	case d == nil:
		return found(finding.SeverityInfo, did, "no cacheDuration",
			"The kubelet uses defaultCacheDuration from the configuration, regardless of when the credential expires.",
			"If the credential's lifetime is known, set cacheDuration to less than the remaining lifetime.")
	case *d < 0:
		return found(finding.SeverityError, did, fmt.Sprintf("cacheDuration %v", *d),
			"The kubelet treats the response as expired and runs the plugin for every pull.",
			"For a credential that is about to expire, return \"0s\" or, better, get a new credential.")
	case *d == 0:
		return found(finding.SeverityWarning, did, "cacheDuration 0s",
			"The kubelet runs the plugin for every pull, and each run queries the token service.",
			"Set cacheDuration to less than the credential's remaining lifetime; use 0s only for credentials that must not be cached.")
	case *d < time.Second:
		return found(finding.SeverityError, did, fmt.Sprintf("cacheDuration %v", *d),
			"The kubelet runs the plugin for every pull.",
			"Check the unit; a number of seconds was probably interpreted as nanoseconds.")
	case *d > day:
		return found(finding.SeverityWarning, did, fmt.Sprintf("cacheDuration %v", *d),
			"The kubelet caches the credential for more than a day and does not drop it when a registry rejects it.",
			"Set cacheDuration to less than the credential's remaining lifetime. Use a string such as \"6h0m0s\", not a number of nanoseconds.")
	default:
		return pass(did, "cacheDuration %v", *d)
	}
}

func checkEmpty(s *suite, resp *plugin.Response) []Finding {
	if len(resp.Auth) > 0 {
		return pass(s.base().did, "%s", plural(len(resp.Auth), "auth key"))
	}
	severity, fix := finding.SeverityWarning, "If the plugin should serve the image but cannot, exit with a nonzero code and print the reason."
	if len(s.opts.Images) == 0 {
		severity, fix = finding.SeverityInfo, "This test was run without an image; specify one that the plugin serves."
	}
	return found(severity, s.base().did, "a response without a credential",
		"The kubelet caches the response for cacheDuration and pulls anonymously.", fix)
}

func checkEmptyGlobal(s *suite, _ *plugin.Response) []Finding {
	for _, r := range []*run{s.base(), s.ask(s.requestFor(lookalike(s.image)))} {
		if r.answered() && len(r.x.Response.Auth) == 0 && r.x.Response.CacheKeyType == plugin.CacheGlobal {
			return found(finding.SeverityWarning, r.did, "a response with cacheKeyType Global and no credential",
				"Until the response expires, the kubelet does not call this plugin for any image, even if the plugin serves the image.",
				"Return cacheKeyType Image or Registry when you have no credential.")
		}
	}
	return pass(s.base().did+", and for another registry", "no empty Global response")
}

func checkStable(s *suite, resp *plugin.Response) []Finding {
	const times = 3
	did := fmt.Sprintf("%s, %d times", s.base().did, times)
	for nth := 1; nth < times; nth++ {
		r := s.again(nth)
		what := "no response: " + r.outcome()
		if r.answered() {
			what = shape(resp, r.x.Response)
		}
		if what != "" {
			return found(finding.SeverityWarning, did, fmt.Sprintf("run %d differs: %s", nth+1, what),
				"Different pulls of the same image might use different credentials.",
				"Always return the same response to the same request. Sort the candidate credentials before choosing one, and exit with an error instead of omitting a candidate.")
		}
	}
	if s.rotating() {
		return pass(did, "the same auth keys and user names, but a new password each time")
	}
	return pass(did, "the same response")
}

func checkEmptyCredential(s *suite, resp *plugin.Response) []Finding {
	var findings []Finding
	for _, key := range authKeys(resp) {
		switch auth := resp.Auth[key]; {
		case auth.Equal(plugin.AuthConfig{}): // anonymous, on purpose
		case auth.Username == "":
			findings = append(findings, found(finding.SeverityWarning, s.base().did, "an empty user name"+under(key),
				"The kubelet passes the credential to the container runtime. containerd treats an empty user name as anonymous, regardless of the password.",
				"Return a user name, even if it is a placeholder. Omit the key if there is no credential.")...)
		case auth.Password.IsZero():
			findings = append(findings, found(finding.SeverityError, s.base().did, "a user name without a password"+under(key),
				"The kubelet sends the user name with an empty password, and the registry returns 401.",
				"Exit with an error if you have no password.")...)
		}
	}
	if len(findings) > 0 {
		return findings
	}
	return pass(s.base().did, "every key has a user name and a password")
}

func checkSpace(s *suite, resp *plugin.Response) []Finding {
	for _, key := range authKeys(resp) {
		auth, what := resp.Auth[key], ""
		switch {
		case padded(auth.Username):
			what = "user name"
		case padded(auth.Password.Reveal()):
			what = "password"
		default:
			continue
		}
		return found(finding.SeverityWarning, s.base().did, fmt.Sprintf("the %s%s begins or ends with white space", what, under(key)),
			"The kubelet sends the value unchanged, and the registry returns 401.",
			"Trim values read from a file or command, because the trailing newline is not part of the credential.")
	}
	return pass(s.base().did, "no leading or trailing white space in user names and passwords")
}

// under returns the key of a credential for messages. Responses of the out-of-tree
// protocol have no keys.
func under(key string) string {
	if key == "" {
		return ""
	}
	return fmt.Sprintf(" under %q", shownKey(key))
}

func padded(s string) bool { return strings.TrimSpace(s) != s }
