// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"fmt"
	"slices"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/plugin"
)

// Checks of how the plugin distinguishes the kubelet's protocol from the out-of-tree
// protocol.

// getCredentials is the argument of the out-of-tree protocol, which some in-tree
// configurations also set.
const getCredentials = "get-credentials"

// bare returns the command for a version without the get-credentials argument.
func (s *suite) bare(version string) plugin.Command {
	cmd := s.cmd
	cmd.APIVersion = version
	cmd.Args = slices.DeleteFunc(slices.Clone(cmd.Args), func(arg plugin.Secret) bool { return arg.Reveal() == getCredentials })
	return cmd
}

// runUnexpected runs the plugin in a way that it does not have to support. Checks that
// apply to every run ignore this run.
func (s *suite) runUnexpected(cmd plugin.Command, did, stdin string) *run {
	if s.tooManyHung() {
		return notRun(did, plugin.StageCanceled, s.ctx.Err())
	}
	r := s.launch(cmd, did, []byte(stdin))
	if s.note(r); !r.answered() {
		s.runs = s.runs[:len(s.runs)-1]
	}
	return r
}

// checkGetCredentials checks that the argument does not select the out-of-tree protocol
// by itself.
func checkGetCredentials(s *suite) []Finding {
	version := s.version()
	if s.outOfTree() {
		version = plugin.V1
	}
	did, stdin, err := s.encode(s.request(version))
	if err != nil {
		return skip("%v", err)
	}
	did += ", with the argument " + getCredentials
	cmd := s.bare(version)
	cmd.Args = slices.Concat(plugin.NewSecrets(getCredentials), cmd.Args)
	r := s.runUnexpected(cmd, did, string(stdin))
	if f := r.unfit(); f != nil {
		return f
	}
	switch base := s.base(); {
	case isOutOfTree(r) && s.outOfTree():
		return found(finding.SeverityInfo, did, "an out-of-tree response to a request in the current protocol",
			"The kubelet rejects the response, so this plugin cannot be used in a CredentialProviderConfig.",
			"Respond to requests that have kind and apiVersion in the current protocol, or reject them.")
	case isOutOfTree(r):
		return found(finding.SeverityError, did, "an out-of-tree response to a request in the current protocol",
			"The kubelet rejects the response. GKE and EKS configurations pass the argument with the current protocol.",
			"Use the out-of-tree protocol only if the request has neither kind nor apiVersion.")
	case r.answered() && s.outOfTree():
		return pass(did, "%s", r.outcome())
	case r.ended() && s.outOfTree():
		return pass(did, "refused: %s", r.outcome())
	case !base.answered():
		return skip("there is nothing to compare, because the plugin returned no response for %q; see the base-answer check", s.image)
	case r.ended():
		return found(finding.SeverityInfo, did, "refused: "+r.outcome(),
			"If the configuration passes the argument, as GKE and EKS configurations do, the kubelet gets no credential.",
			"Ignore the argument, or document that the plugin does not accept it.")
	case !r.answered():
		return found(finding.SeverityError, did, r.outcome(), "The kubelet rejects the response and pulls anonymously.", "Ignore or reject the argument.")
	default:
		if what := s.difference(base.x.Response, r.x.Response); what != "" {
			return found(finding.SeverityError, did, "the response differs from the base response: "+what,
				"The kubelet uses this response if the configuration passes the argument.", "Ignore the argument.")
		}
		return pass(did, "the same as the base response")
	}
}

// isOutOfTree reports whether the response uses the out-of-tree protocol.
func isOutOfTree(r *run) bool {
	if r.x.ExitCode != 0 || r.silent() || r.answered() {
		return false
	}
	_, err := plugin.DecodeResponse([]byte(r.x.Stdout.Reveal()), plugin.OutOfTree)
	return err == nil
}

// checkPredecessor checks that an out-of-tree request gets an out-of-tree response, but
// only with the get-credentials argument.
func checkPredecessor(s *suite) []Finding {
	stdin := s.rawRequest("", plugin.OutOfTree, "")
	with := s.runUnexpected(s.bare(plugin.OutOfTree), "sent a request that contains only an image, with the argument "+getCredentials, stdin)
	without := s.runUnexpected(s.bare(plugin.V1), "sent a request that contains only an image, without the argument "+getCredentials, stdin)
	for _, r := range []*run{with, without} {
		if f := r.unfit(); f != nil {
			return f
		}
	}
	switch {
	case with.x.ExitCode == 0 && !with.answered():
		return found(finding.SeverityWarning, with.did, "returned neither an out-of-tree response nor an error: "+with.outcome(),
			"The kubelet never sends this request. A host that uses the out-of-tree protocol rejects the response.",
			"Return username and password, and expirationTimestamp if known, or exit with a nonzero code.")
	case without.x.ExitCode == 0:
		return found(finding.SeverityWarning, without.did, fmt.Sprintf("exit code 0 and %s on standard output", plural(len(without.x.Stdout.Reveal()), "byte")),
			"The kubelet never sends this request, but a caller that sends it by mistake gets a credential.",
			"Check kind and apiVersion, unless the first argument is "+getCredentials+".")
	case without.alike(s.base()):
		return skip("the plugin fails in the same way for a valid request; see the base-answer check")
	case with.answered():
		return pass(with.did+", and without", "a response with get-credentials, and an error without get-credentials")
	}
	return pass(with.did+", and without", "both rejected")
}
