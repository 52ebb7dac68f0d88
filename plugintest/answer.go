// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/plugin"
)

// The checks of the answer itself.

// checkStage checks that the answer does not fail at a stage of its reading.
func checkStage(stage plugin.Stage, ok, kubelet, fix string) func(*suite) []Finding {
	order := []plugin.Stage{plugin.StageOutput, plugin.StageAPIVersion, plugin.StageDecode, plugin.StageCacheKeyType}
	return func(s *suite) []Finding {
		r := s.base()
		switch {
		case r.failed(stage):
			return found(Error, r.did, r.outcome(), kubelet, fix)
		case r.answered() || r.failed(order[slices.Index(order, stage)+1:]...):
			return pass(r.did, "%s", ok)
		}
		return skip("there is no answer for %q to judge: see base-answer", s.image)
	}
}

func checkDuration(s *suite, resp *plugin.Response) []Finding {
	const day = 24 * time.Hour
	did := s.base().did
	switch d := resp.CacheDuration; {
	case s.outOfTree() && *d == 0:
		return found(Warning, did, "no expirationTimestamp, or one that is past",
			"A host of the predecessor's protocol runs the plugin for every pull, which asks the token service each time.",
			"Set expirationTimestamp to a time before the end of the credential's life, with its zone.")
	case d == nil:
		return found(Info, did, "no cacheDuration",
			"It takes defaultCacheDuration of the configuration, whatever the credential's life.",
			"Set cacheDuration to less than the rest of the credential's life, if that is known.")
	case *d < 0:
		return found(Error, did, fmt.Sprintf("cacheDuration %v", *d),
			"It takes the answer for one that has expired, and runs the plugin for every pull.",
			"Write \"0s\" for a credential with no life left, or better: get a new one.")
	case *d == 0:
		return found(Warning, did, "cacheDuration 0s",
			"It runs the plugin for every pull, which asks the token service each time.",
			"Set cacheDuration to less than the rest of the credential's life; 0s is for what must not be kept.")
	case *d < time.Second:
		return found(Error, did, fmt.Sprintf("cacheDuration %v", *d),
			"It runs the plugin for every pull.",
			"It looks like a slip of units: a number of seconds taken for nanoseconds, for instance.")
	case *d > day:
		return found(Warning, did, fmt.Sprintf("cacheDuration %v", *d),
			"It keeps the credential for longer than a day, and never drops it when a registry refuses it.",
			"Set it to less than the rest of the credential's life. It is text such as \"6h0m0s\", not a number of nanoseconds.")
	default:
		return pass(did, "cacheDuration %v", *d)
	}
}

func checkEmpty(s *suite, resp *plugin.Response) []Finding {
	if len(resp.Auth) > 0 {
		return pass(s.base().did, "%s", plural(len(resp.Auth), "auth key"))
	}
	severity, fix := Warning, "An image that the plugin should serve and cannot is an error: exit with another code than 0, and say why."
	if len(s.opts.Images) == 0 {
		severity, fix = Info, "Name an image that the plugin serves: no image was named for this examination."
	}
	return found(severity, s.base().did, "an answer without a credential",
		"It keeps the answer as long as cacheDuration says, and pulls anonymously.", fix)
}

func checkEmptyGlobal(s *suite, _ *plugin.Response) []Finding {
	for _, r := range []*run{s.base(), s.ask(s.questionFor(lookalike(s.image)))} {
		if r.answered() && len(r.x.Response.Auth) == 0 && r.x.Response.CacheKeyType == plugin.CacheGlobal {
			return found(Warning, r.did, "an answer without a credential, for all images (Global)",
				"Until the answer expires it asks this plugin for no image at all, not even for those that it serves.",
				"Answer with cacheKeyType Image, or Registry, where you have no credential.")
		}
	}
	return pass(s.base().did+", and for another registry", "no empty Global answer")
}

func checkStable(s *suite, resp *plugin.Response) []Finding {
	const times = 3
	did := fmt.Sprintf("%s, %d times", s.base().did, times)
	for nth := 1; nth < times; nth++ {
		r := s.again(nth)
		what := "no answer: " + r.outcome()
		if r.answered() {
			what = shape(resp, r.x.Response)
		}
		if what != "" {
			return found(Warning, did, fmt.Sprintf("run %d differs: %s", nth+1, what),
				"Which credential a pull gets depends on when the plugin ran.",
				"Answer the same question alike: sort what you choose from, and fail rather than leave something out.")
		}
	}
	if s.rotating() {
		return pass(did, "the same keys and user names, a new password each time")
	}
	return pass(did, "the same answer")
}

func checkEmptyCredential(s *suite, resp *plugin.Response) []Finding {
	var findings []Finding
	for _, key := range authKeys(resp) {
		switch auth := resp.Auth[key]; {
		case auth.IsZero(): // anonymous, on purpose
		case auth.Username == "":
			findings = append(findings, found(Warning, s.base().did, "an empty user name"+under(key),
				"It hands both to the container runtime; containerd takes an empty user name for anonymous, whatever the password.",
				"Give a user name, if only a placeholder; leave the key out if there is no credential.")...)
		case auth.Password.IsZero():
			findings = append(findings, found(Error, s.base().did, "a user name without a password"+under(key),
				"It sends the user name with an empty password, and the registry answers 401.",
				"Fail if you have no password: a token service that gives none has failed.")...)
		}
	}
	if len(findings) > 0 {
		return findings
	}
	return pass(s.base().did, "a user name and a password under each key")
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
		return found(Warning, s.base().did, fmt.Sprintf("the %s%s begins or ends with white space", what, under(key)),
			"It sends it as it is, and the registry answers 401.",
			"Trim what you read from a file or a command: its line end is not part of the credential.")
	}
	return pass(s.base().did, "no white space around a user name or password")
}

// under names the key of a credential; an answer in the predecessor's protocol
// has none.
func under(key string) string {
	if key == "" {
		return ""
	}
	return fmt.Sprintf(" under %q", shownKey(key))
}

func padded(s string) bool { return strings.TrimSpace(s) != s }
