// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"github.com/regcred/regcred/plugin"
)

// Conditions under which checks are skipped.

// answered returns a check that is skipped without a response.
func answered(f func(*suite, *plugin.Response) []Finding) func(*suite) []Finding {
	return func(s *suite) []Finding {
		base := s.base()
		if !base.answered() {
			return skip("the plugin returned no response for %q; see the base-answer check", s.image)
		}
		return f(s, base.x.Response)
	}
}

// withCredential returns a check that is skipped without a credential in the
// response.
func withCredential(f func(*suite, *plugin.Response) []Finding) func(*suite) []Finding {
	return answered(func(s *suite, resp *plugin.Response) []Finding {
		if len(resp.Auth) == 0 {
			return skip("the response for %q has no credential; see the answer-empty check", s.image)
		}
		return f(s, resp)
	})
}

// inTree returns a check that is skipped for the out-of-tree protocol, which has no
// what.
func inTree(what string, f func(*suite) []Finding) func(*suite) []Finding {
	return func(s *suite) []Finding {
		if s.outOfTree() {
			return skip("this test uses the out-of-tree protocol, which has no %s", what)
		}
		return f(s)
	}
}

// inV1 returns a check that is skipped if the plugin does not support v1.
func inV1(f func(*suite) []Finding) func(*suite) []Finding {
	return func(s *suite) []Finding {
		switch r := s.ask(s.request(plugin.V1)); {
		case r.failed(plugin.StageStart):
			return notStarted()
		case !r.answered() && s.base().answered():
			return skip("the plugin does not support v1, the only version with service-account mode")
		}
		return f(s)
	}
}
