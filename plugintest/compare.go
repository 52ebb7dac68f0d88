// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/regcred/regcred/plugin"
)

// difference describes how b differs from a, a response for the same image; "" if
// they are equal. Passwords are compared only if two equal requests return the same
// password.
func (s *suite) difference(a, b *plugin.Response) string {
	if what := shape(a, b); what != "" {
		return what
	}
	for _, key := range authKeys(a) {
		if a.Auth[key].Password.Equal(b.Auth[key].Password) {
			continue
		}
		if s.rotating() || s.renewed() {
			return ""
		}
		return fmt.Sprintf("the password for %q differs", shownKey(key))
	}
	return ""
}

// shape is difference without passwords.
func shape(a, b *plugin.Response) string {
	if a.CacheKeyType != b.CacheKeyType {
		return fmt.Sprintf("cacheKeyType is %s, not %s", b.CacheKeyType, a.CacheKeyType)
	}
	before, after := authKeys(a), authKeys(b)
	if !slices.Equal(before, after) {
		return fmt.Sprintf("the auth keys are %s, not %s", shownKeys(after), shownKeys(before))
	}
	for _, key := range before {
		if a.Auth[key].Username != b.Auth[key].Username {
			return fmt.Sprintf("the user name for %q differs", shownKey(key))
		}
	}
	return ""
}

// rotating reports whether two equal requests get different passwords.
func (s *suite) rotating() bool { return s.anotherPassword(s.again(1)) }

// renewed reports whether a repeated base request returns another password, because
// the service renewed it between two runs.
func (s *suite) renewed() bool {
	return s.anotherPassword(s.runWith(s.cmd, s.request(s.version())))
}

// anotherPassword reports whether a run of the base request differs from the first
// one only in its passwords.
func (s *suite) anotherPassword(r *run) bool {
	base := s.base()
	if !base.answered() || !r.answered() || shape(base.x.Response, r.x.Response) != "" {
		return false
	}
	return !maps.EqualFunc(base.x.Response.Auth, r.x.Response.Auth, plugin.AuthConfig.Equal)
}

// again repeats the base request.
func (s *suite) again(nth int) *run {
	q := s.request(s.version())
	q.nth = nth
	return s.ask(q)
}
