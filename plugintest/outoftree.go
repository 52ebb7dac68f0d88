// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"fmt"
	"slices"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/diagnose"
	"github.com/regcred/regcred/plugin"
)

// The checks in this file examine whether the plugin distinguishes the kubelet's protocol from
// the out-of-tree protocol.

// getCredentialsArg is the argument that the out-of-tree protocol requires. Some configurations
// for the kubelet's protocol also set it.
const getCredentialsArg = "get-credentials"

// commandForVersion returns the command that sends requests of a version. It removes the
// argument get-credentials.
func (s *suite) commandForVersion(version string) plugin.Command {
	cmd := s.cmd
	cmd.APIVersion = version
	cmd.Args = slices.DeleteFunc(slices.Clone(cmd.Args), func(arg plugin.Secret) bool { return arg.Reveal() == getCredentialsArg })
	return cmd
}

// runUnexpected runs the plugin with a request that it does not have to support. If the run
// fails, it is not recorded for the checks that examine every run.
func (s *suite) runUnexpected(cmd plugin.Command, did, stdin string) *run {
	r := s.runAndRecord(cmd, did, []byte(stdin))
	s.runs = slices.DeleteFunc(s.runs, func(recorded *run) bool { return recorded == r && !r.hasResponse() })
	return r
}

// checkGetCredentials checks that the argument get-credentials is not sufficient to select
// the out-of-tree protocol.
func checkGetCredentials(s *suite) []Finding {
	version := s.baseVersion()
	if s.isOutOfTree() {
		version = plugin.V1
	}
	did, stdin, err := s.encodeRequest(s.newRequest(version))
	if err != nil {
		return skipFinding("%v", err)
	}
	did += ", with the argument " + getCredentialsArg
	cmd := s.commandForVersion(version)
	cmd.Args = slices.Concat(plugin.NewSecrets(getCredentialsArg), cmd.Args)
	r := s.runUnexpected(cmd, did, string(stdin))
	if f := r.unusableFinding(); f != nil {
		return f
	}
	switch base := s.baseRun(); {
	case isOutOfTree(r) && s.isOutOfTree():
		return newFinding(finding.SeverityInfo, did, "an out-of-tree response to a request in the current protocol",
			"The kubelet rejects the response, so this plugin cannot be used in a CredentialProviderConfig.",
			"Respond to requests that have kind and apiVersion in the current protocol, or reject them.")
	case isOutOfTree(r):
		return newFinding(finding.SeverityError, did, "an out-of-tree response to a request in the current protocol",
			"The kubelet rejects the response. GKE and EKS configurations pass the argument with the current protocol.",
			"Use the out-of-tree protocol only if the request has neither kind nor apiVersion.")
	case r.hasResponse() && s.isOutOfTree():
		return passFinding(did, "%s", r.describeOutcome())
	case r.exitedWithError() && s.isOutOfTree():
		return passFinding(did, "refused: %s", r.describeOutcome())
	case !base.hasResponse():
		return skipFinding("there is nothing to compare, because the plugin returned no response for %q; see the base-answer check", s.image)
	case r.exitedWithError():
		return newFinding(finding.SeverityInfo, did, "refused: "+r.describeOutcome(),
			"If the configuration passes the argument, as GKE and EKS configurations do, the kubelet gets no credential.",
			"Ignore the argument, or document that the plugin does not accept it.")
	case !r.hasResponse():
		return newFinding(finding.SeverityError, did, r.describeOutcome(), "The kubelet rejects the response and pulls anonymously.", "Ignore or reject the argument.")
	default:
		if what := s.describeDifference(base.exchange.Response, r.exchange.Response); what != "" {
			return newFinding(finding.SeverityError, did, "the response differs from the base response: "+what,
				"The kubelet uses this response if the configuration passes the argument.", "Ignore the argument.")
		}
		return passFinding(did, "the same as the base response")
	}
}

// isOutOfTree reports whether the response uses the out-of-tree protocol.
func isOutOfTree(r *run) bool {
	if r.exchange.ExitCode != 0 || r.hasNoOutput() || r.hasResponse() {
		return false
	}
	_, err := plugin.DecodeResponse([]byte(r.exchange.Stdout.Reveal()), plugin.OutOfTree)
	return err == nil
}

// checkOutOfTreeRequest checks that a request of the out-of-tree protocol gets a response in that
// protocol, but only with the argument get-credentials.
func checkOutOfTreeRequest(s *suite) []Finding {
	stdin := s.rawRequest("", plugin.OutOfTree, "")
	with := s.runUnexpected(s.commandForVersion(plugin.OutOfTree), "sent a request that contains only an image, with the argument "+getCredentialsArg, stdin)
	without := s.runUnexpected(s.commandForVersion(plugin.V1), "sent a request that contains only an image, without the argument "+getCredentialsArg, stdin)
	for _, r := range []*run{with, without} {
		if f := r.unusableFinding(); f != nil {
			return f
		}
	}
	switch {
	case with.exchange.ExitCode == 0 && !with.hasResponse():
		return newFinding(finding.SeverityWarning, with.action, "returned neither an out-of-tree response nor an error: "+with.describeOutcome(),
			"The kubelet never sends this request. A host that uses the out-of-tree protocol rejects the response.",
			"Return username and password, and expirationTimestamp if known, or exit with a nonzero code.")
	case without.exchange.ExitCode == 0:
		return newFinding(finding.SeverityWarning, without.action, fmt.Sprintf("exit code 0 and %s on standard output", diagnose.FormatCount(len(without.exchange.Stdout.Reveal()), "byte")),
			"The kubelet never sends this request, but a caller that sends it by mistake gets a credential.",
			"Check kind and apiVersion, unless the first argument is "+getCredentialsArg+".")
	case without.failedAlike(s.baseRun()):
		return skipFinding("the plugin fails in the same way for a valid request; see the base-answer check")
	case with.hasResponse():
		return passFinding(with.action+", and without", "a response with get-credentials, and an error without get-credentials")
	}
	return passFinding(with.action+", and without", "both rejected")
}
