// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"fmt"
	"slices"

	"github.com/regcred/regcred/plugin"
)

// The checks of how the plugin tells today's protocol from its predecessor's,
// which shares an argument with it; and what of the other checks is left for a
// plugin that is examined in the predecessor's.

// getCredentials is the argument that belongs to the predecessor's protocol,
// and that configurations of today's pass too.
const getCredentials = "get-credentials"

// bare is the Command in a version, without the argument: a plugin with flags
// takes it from behind them too.
func (s *suite) bare(version string) plugin.Command {
	cmd := s.cmd
	cmd.APIVersion = version
	cmd.Args = slices.DeleteFunc(slices.Clone(cmd.Args), func(arg string) bool { return arg == getCredentials })
	return cmd
}

// aside runs the plugin as it need not expect to be run: what it says if it
// refuses is not judged by the checks of every run.
func (s *suite) aside(cmd plugin.Command, did, stdin string) *run {
	if s.tired() {
		return notRun(did, plugin.StageCanceled, s.ctx.Err())
	}
	r := s.launch(cmd, did, []byte(stdin))
	if s.note(r); !r.answered() {
		s.runs = s.runs[:len(s.runs)-1]
	}
	return r
}

// checkGetCredentials checks that the argument alone does not mean the
// predecessor's protocol.
func checkGetCredentials(s *suite) []Finding {
	version := s.version()
	if s.outOfTree() {
		version = plugin.V1
	}
	did, stdin, err := s.encode(s.question(version))
	if err != nil {
		return skip("%v", err)
	}
	did += ", with the argument " + getCredentials
	cmd := s.bare(version)
	cmd.Args = slices.Concat([]string{getCredentials}, cmd.Args)
	r := s.aside(cmd, did, string(stdin))
	if f := r.unfit(); f != nil {
		return f
	}
	switch base := s.base(); {
	case isLogin(r) && s.outOfTree():
		return found(Info, did, "an answer in the predecessor's protocol to a request in today's",
			"It drops the answer: this plugin cannot be configured in a CredentialProviderConfig.",
			"Answer requests that have kind and apiVersion in today's protocol, or refuse them.")
	case isLogin(r):
		return found(Error, did, "an answer in the predecessor's protocol to a request in today's",
			"It drops the answer: configurations of GKE and EKS pass the argument with today's protocol.",
			"Answer in the predecessor's protocol only if the request has neither kind nor apiVersion.")
	case r.answered() && s.outOfTree():
		return pass(did, "%s", r.outcome())
	case r.ended() && s.outOfTree():
		return pass(did, "refused: %s", r.outcome())
	case !base.answered():
		return skip("there is no answer for %q to compare: see base-answer", s.image)
	case r.ended():
		return found(Info, did, "refused: "+r.outcome(),
			"It gets no credential with a configuration that passes the argument, as those of GKE and EKS do.",
			"Ignore the argument, or document that the plugin has none.")
	case !r.answered():
		return found(Error, did, r.outcome(), "It drops the answer, and pulls anonymously.", "Ignore the argument, or refuse it.")
	default:
		if what := s.difference(base.x.Response, r.x.Response); what != "" {
			return found(Error, did, "another answer than without it: "+what,
				"It uses that answer, with a configuration that passes the argument.", "Ignore the argument.")
		}
		return pass(did, "the same answer as without it")
	}
}

// isLogin reports whether the plugin has answered in the predecessor's protocol.
func isLogin(r *run) bool {
	if r.x.ExitCode != 0 || r.silent() || r.answered() {
		return false
	}
	_, err := plugin.DecodeResponse([]byte(r.x.Stdout.Reveal()), plugin.OutOfTree)
	return err == nil
}

// checkPredecessor checks that a request of the predecessor's is answered in
// its protocol, if at all, and only with the argument.
func checkPredecessor(s *suite) []Finding {
	stdin := s.rawRequest("", plugin.OutOfTree, "")
	with := s.aside(s.bare(plugin.OutOfTree), "sent a request that is an image alone, with the argument "+getCredentials, stdin)
	without := s.aside(s.bare(plugin.V1), "sent a request that is an image alone, without the argument "+getCredentials, stdin)
	for _, r := range []*run{with, without} {
		if f := r.unfit(); f != nil {
			return f
		}
	}
	switch {
	case with.x.ExitCode == 0 && !with.answered():
		return found(Warning, with.did, "neither an answer in the predecessor's protocol nor a refusal: "+with.outcome(),
			"It never sends this. A host that speaks the predecessor's protocol drops the answer.",
			"Answer with username and password, and expirationTimestamp if it is known; or exit with another code than 0.")
	case without.x.ExitCode == 0:
		return found(Warning, without.did, fmt.Sprintf("exit code 0 and %s on standard output", plural(len(without.x.Stdout.Reveal()), "byte")),
			"It never sends this; whoever does by mistake is handed a credential.",
			"Check kind and apiVersion, unless the first argument is "+getCredentials+".")
	case without.alike(s.base()):
		return skip("the plugin fails for this as it does for a request: see base-answer")
	case with.answered():
		return pass(with.did+", and without", "with it an answer, without it refused")
	}
	return pass(with.did+", and without", "refused both times")
}
