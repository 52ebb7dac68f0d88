// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"context"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/plugin"
)

// Check describes one check.
type Check struct {
	ID       string           `json:"id"`       // stable, kebab-case
	Title    string           `json:"title"`    // expected behaviour
	Severity finding.Severity `json:"severity"` // highest severity among its findings
	Why      string           `json:"why"`      // consequence of a failure
	Source   string           `json:"source"`   // issue or specification
}

type check struct {
	Check
	run func(*suite) []Finding
}

// runCheck runs the check. It returns a skipped finding if the context is done, or if a run was
// not made because too many earlier runs hung.
func (c check) runCheck(s *suite) []Finding {
	var findings []Finding
	s.skipRest = false
	if s.ctx.Err() == nil {
		findings = c.run(s)
	}
	switch {
	case s.ctx.Err() != nil:
		findings = skipFinding("the test was canceled: %v", context.Cause(s.ctx))
	case s.skipRest:
		findings = skipFinding("%d earlier plugin runs hung or took more than 30 seconds, so the plugin was not run again", maxHungRuns)
	}
	for i := range findings {
		findings[i].Rule = c.ID
	}
	return findings
}

// Checks returns descriptions of all checks in the order in which they run.
func Checks() []Check {
	var list []Check
	for _, c := range allChecks() {
		list = append(list, c.Check)
	}
	return list
}

const (
	kep2133URL        = "https://github.com/kubernetes/enhancements/issues/2133"
	kep4412URL        = "https://github.com/kubernetes/enhancements/issues/4412"
	kubeletPluginURL  = "https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/credentialprovider/plugin/plugin.go"
	kubeletKeyringURL = "https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/credentialprovider/keyring.go"
	githubURL         = "https://github.com/"
)

// allChecks returns all checks in the order in which they run.
func allChecks() []check {
	return []check{
		{Check{"binary-runs", "The executable can run on this machine", finding.SeverityError,
			"the kubelet exits if the executable is missing, and reports an exec format error for the wrong architecture",
			githubURL + "siderolabs/talos/issues/11086"}, checkExecutable},
		{Check{"binary-static", "The executable needs no library or interpreter from the host", finding.SeverityWarning,
			"otherwise the plugin fails with \"no such file or directory\" on hosts with a different C library or without a shell",
			githubURL + "siderolabs/extensions/pull/706"}, checkStaticBinary},

		{Check{"base-answer", "The plugin returns a response for the image", finding.SeverityError,
			"without a response, the kubelet pulls anonymously and the pull fails with 401",
			githubURL + "kubernetes-sigs/kind/issues/4185"}, checkBase},
		{Check{"version-v1", "A v1 request gets a v1 response", finding.SeverityError,
			"the kubelet rejects a response with a different version; only v1 has service-account mode",
			githubURL + "kubernetes/kubernetes/pull/117448"}, requireInTree("versions", checkVersion(plugin.V1))},
		{Check{"version-v1beta1", "A v1beta1 request gets a v1beta1 response or an error", finding.SeverityError,
			"the kubelet rejects a response whose version differs from the request's",
			githubURL + "kubernetes/kubernetes/pull/117448"}, requireInTree("versions", checkVersion(plugin.V1Beta1))},
		{Check{"version-v1alpha1", "A v1alpha1 request gets a v1alpha1 response or an error", finding.SeverityError,
			"the kubelet rejects a response whose version differs from the request's",
			githubURL + "kubernetes-sigs/cluster-api-provider-azure/issues/4110"}, requireInTree("versions", checkVersion(plugin.V1Alpha1))},
		{Check{"version-unknown", "A request with an unknown version is rejected", finding.SeverityError,
			"a plugin cannot interpret a version that it does not know, and a response would hide the version mismatch",
			githubURL + "kubernetes/kubernetes/pull/117448"}, requireInTree("apiVersion in a request", checkRejects(unknownVersionInput))},
		{Check{"request-kind", "A request with another kind is rejected", finding.SeverityError,
			"otherwise, a caller that uses the wrong protocol gets a credential or a confusing error",
			githubURL + "awslabs/amazon-ecr-credential-helper/issues/616"}, requireInTree("kind in a request", checkRejects(wrongKindInput))},
		{Check{"request-unknown-field", "Unknown fields are ignored", finding.SeverityError,
			"Kubernetes adds fields to existing versions (KEP-4412), so a plugin that rejects unknown fields fails on the first upgraded node",
			kep4412URL}, requireInTree("future fields", requireResponse(checkUnknownField))},
		{Check{"request-strict", "A request with a duplicate field or trailing data is rejected", finding.SeverityError,
			"otherwise, two parsers can read different image names from the same request",
			kep2133URL}, checkRequestStrict},
		{Check{"stdin-garbage", "Standard input that is not JSON is rejected", finding.SeverityError,
			"if the plugin crashes or hangs, the user does not see the cause",
			githubURL + "awslabs/amazon-ecr-credential-helper/issues/616"}, checkRejects(garbageInput)},
		{Check{"stdin-empty", "Empty standard input is rejected", finding.SeverityError,
			"otherwise, a plugin that is run by hand hangs, or responds without a request",
			githubURL + "kubernetes/kubernetes/pull/117448"}, checkRejects(emptyInput)},
		{Check{"stdin-truncated", "A truncated request is rejected", finding.SeverityError,
			"a truncated image name might be the name of another image",
			kep2133URL}, checkRejects(truncatedInput)},
		{Check{"stdin-oversized", "A 4 MiB request gets a response or an error", finding.SeverityError,
			"if the plugin stops reading its input, the caller blocks; if it crashes, the cause is hidden",
			kep4412URL}, checkOversized},

		{Check{"get-credentials", "The get-credentials argument does not change the protocol", finding.SeverityError,
			"GKE and EKS configurations pass this argument, so the argument alone must not select the out-of-tree protocol",
			githubURL + "kubernetes/website/pull/40841"}, checkGetCredentials},
		{Check{"predecessor", "An out-of-tree request is rejected, or gets an out-of-tree response if get-credentials is given", finding.SeverityError,
			"a request without kind and apiVersion is invalid; only the argument marks it as out-of-tree",
			githubURL + "kubernetes/enhancements/pull/1406"}, checkOutOfTreeRequest},

		{Check{"answer-json", "Standard output contains only the response", finding.SeverityError,
			"a single log line on standard output invalidates the response",
			githubURL + "int128/kubelogin/issues/124"}, checkStage(plugin.StageOutput, "one JSON document",
			"The kubelet reports a decoding error and pulls anonymously.",
			"Write only the response to standard output, and write logs to standard error.")},
		{Check{"answer-fields", "The response has only the fields defined for its kind", finding.SeverityError,
			"the kubelet decodes strictly: an unknown, duplicate or misspelled field invalidates the whole response",
			kubeletPluginURL}, checkStage(plugin.StageDecode, "only known fields",
			"The kubelet decodes strictly, rejects the whole response, and pulls anonymously.",
			"Use only the fields that this API version defines, with the correct case. cacheDuration is a string such as \"10m0s\".")},
		{Check{"cache-key-type", "cacheKeyType is Image, Registry or Global", finding.SeverityError,
			"if cacheKeyType is missing or has another value, the kubelet rejects the response",
			githubURL + "kubernetes/cloud-provider-gcp/issues/226"}, requireInTree("cacheKeyType", checkStage(plugin.StageCacheKeyType, "a valid cacheKeyType",
			"The kubelet rejects the response and pulls anonymously.",
			"Set cacheKeyType to the narrowest of Image, Registry and Global that applies."))},
		{Check{"cache-scope", "The response is the same for every image that cacheKeyType covers", finding.SeverityError,
			"the kubelet reuses the response for other images, which then get no credential or the wrong credential",
			githubURL + "kubernetes/kubernetes/pull/92818"}, requireInTree("cacheKeyType", requireCredential(checkScope))},
		{Check{"cache-duration", "cacheDuration is between one second and one day", finding.SeverityError,
			"with the wrong unit, the plugin runs for every pull, or the cached response outlives the credential",
			githubURL + "kubernetes/cloud-provider-aws/issues/348"}, requireResponse(checkDuration)},
		{Check{"answer-empty", "The response has a credential", finding.SeverityWarning,
			"the kubelet caches an empty response as \"no credential needed\" and pulls anonymously",
			githubURL + "kubernetes-sigs/kind/issues/4185"}, requireResponse(checkEmpty)},
		{Check{"empty-global", "The cacheKeyType of a response without credentials is not Global", finding.SeverityWarning,
			"otherwise the kubelet does not call the plugin for any image until the response expires",
			githubURL + "kubernetes/kubernetes/issues/92326"}, requireInTree("cacheKeyType", requireResponse(checkEmptyGlobal))},
		{Check{"answer-stable", "Repeated requests get the same keys, user names and cache scope", finding.SeverityWarning,
			"otherwise, a pull might get any of several credentials",
			githubURL + "google/go-containerregistry/issues/1431"}, requireResponse(checkStable)},
		{Check{"auth-key-match", "An auth key matches the requested image", finding.SeverityError,
			"the kubelet matches keys the same way as matchImages patterns, and pulls anonymously if no key matches",
			githubURL + "kubernetes-sigs/kind/issues/4185"}, requireInTree("auth keys", requireCredential(checkKeyMatch))},
		{Check{"auth-key-dead", "Every auth key can match an image", finding.SeverityWarning,
			"the kubelet accepts keys with path globs, upper-case letters or an unused port, but never uses them",
			githubURL + "kubernetes/kubernetes/issues/119941"}, requireInTree("auth keys", requireCredential(checkUnmatchableKey))},
		{Check{"auth-key-wide", "No auth key matches registries outside your control", finding.SeverityWarning,
			"the password is sent to every registry that the key matches",
			githubURL + "sse-secure-systems/connaisseur/pull/2166"}, requireInTree("auth keys", requireCredential(checkBroadKey))},
		{Check{"auth-key-port", "For an image with a different port, an auth key matches", finding.SeverityInfo,
			"a key without a port never matches an image with a port, so the kubelet cannot use the response",
			kubeletKeyringURL}, requireInTree("auth keys", requireResponse(checkKeyPort))},
		{Check{"foreign-host", "A lookalike registry gets no credential", finding.SeverityInfo,
			"otherwise, if an image name is mistyped, only matchImages prevents the password from being sent to the wrong registry",
			githubURL + "chrismellard/docker-credential-acr-env/issues/21"}, requireResponse(checkOtherRegistry)},
		{Check{"credential-empty", "No user name or password is empty", finding.SeverityError,
			"the kubelet pulls with an incomplete credential, and the error points to the registry instead of the plugin",
			githubURL + "bazel-contrib/rules_oci/pull/731"}, requireCredential(checkEmptyCredential)},
		{Check{"credential-space", "No user name or password begins or ends with white space", finding.SeverityWarning,
			"the trailing newline of a password file becomes part of the password, and the registry returns 401",
			githubURL + "charmed-kubernetes/bundle/issues/384"}, requireCredential(checkWhitespace)},

		{Check{"token-absent", "A v1 request with annotations but no token gets a response or an error", finding.SeverityError,
			"with requireServiceAccount: false, the plugin also runs for pods without a service account",
			kep4412URL}, requireInTree("service-account mode", requireV1(checkTokenAbsent))},
		{Check{"token-used", "With tokenAttributes, the response depends on the token", finding.SeverityWarning,
			"otherwise, the kubelet requests a token and runs the plugin for each service account, but always gets the same response",
			kep4412URL}, requireInTree("service-account mode", requireV1(checkTokenUsed))},
		{Check{"token-echo", "The password is not the service account token", finding.SeverityError,
			"the kubelet rejects the token as a password unless cacheType is Token",
			githubURL + "kubernetes/kubernetes/issues/140065"}, requireInTree("service-account mode", requireV1(checkTokenEcho))},
		{Check{"token-old-version", "A token in a v1beta1 or v1alpha1 request is ignored", finding.SeverityWarning,
			"only v1 has a token field; a plugin that uses the token in another version does not check the request's version",
			kep4412URL}, requireInTree("service-account mode", checkTokenOldVersion)},

		{Check{"exit-code", "The exit code is 0 with a response and nonzero without one", finding.SeverityError,
			"the kubelet discards the response if the exit code is nonzero, and exit code 0 without a response hides the cause",
			kubeletPluginURL}, checkEveryRun(checkExitCode, "the exit code was 0 with a response and nonzero without one")},
		{Check{"failure-stdout", "A plugin that fails writes nothing to standard output", finding.SeverityWarning,
			"the kubelet logs only standard error, so text on standard output is lost",
			githubURL + "kubernetes/kubernetes/pull/117448"}, checkEveryRun(checkFailureStdout, "no failed run wrote to standard output")},
		{Check{"failure-message", "A plugin that fails prints the reason to standard error", finding.SeverityWarning,
			"otherwise the kubelet logs only the exit status",
			githubURL + "kubernetes/kubernetes/pull/117448"}, checkEveryRun(checkFailureMessage, "every failed run wrote to standard error")},
		{Check{"crash", "The plugin does not crash", finding.SeverityError,
			"a stack trace fills the kubelet's log and hides the reason",
			githubURL + "oracle-devrel/oke-credential-provider-for-ocir/issues/4"}, checkEveryRun(checkCrash, "no run crashed")},
		{Check{"stderr-secret", "No secret is written to standard error", finding.SeverityError,
			"the kubelet logs the standard error of a failed plugin",
			githubURL + "kubernetes/kubernetes/issues/95622"}, checkEveryRun(checkStderrSecret, "no token or password on standard error")},
		{Check{"stderr-volume", "Standard error stays below 4 KiB", finding.SeverityWarning,
			"for every pull, the kubelet logs all of standard error on one line",
			githubURL + "kubernetes/kubernetes/pull/117448"}, checkEveryRun(checkStderrVolume, "no run wrote more than 4 KiB to standard error")},
		{Check{"stderr-usage", "A plugin that fails does not print its usage message", finding.SeverityWarning,
			"otherwise, the list of flags buries the reason for the failure",
			githubURL + "kubernetes/kubernetes/pull/117448"}, checkEveryRun(checkStderrUsage, "no failed run printed its usage")},

		{Check{"time-to-answer", "The response arrives within ten seconds", finding.SeverityError,
			"the kubelet kills the plugin after a minute, and every pull waits for the plugin",
			githubURL + "kubernetes/kubernetes/pull/108209"}, checkRunTime},
		{Check{"sigterm", "A plugin that waits for input exits within five seconds of SIGTERM", finding.SeverityWarning,
			"otherwise, the plugin delays the host's shutdown until the host kills it mid-operation",
			githubURL + "docker/docker-credential-helpers/issues/355"}, checkSIGTERM},
		{Check{"concurrent", "Concurrent runs return the same response", finding.SeverityError,
			"when a node starts, the kubelet runs the plugin for many images at once, so runs that share files or locks can fail",
			githubURL + "oracle-devrel/oke-credential-provider-for-ocir/issues/4"}, requireResponse(checkConcurrent)},

		{Check{"env-empty", "The plugin works with an empty environment", finding.SeverityWarning,
			"the kubelet's environment differs from a shell's, so PATH and the locale might be unset",
			githubURL + "kubernetes/kubernetes/issues/102750"}, requireResponse(checkEnvEmpty)},
		{Check{"env-no-home", "The plugin works without HOME", finding.SeverityError,
			"a system service has no HOME, so the plugin works in a shell but fails in the kubelet",
			githubURL + "awslabs/amazon-ecr-credential-helper/issues/161"}, requireResponse(checkEnvHome)},
		{Check{"dir-root", "The plugin works if its working directory is /", finding.SeverityError,
			"systemd starts the kubelet in /",
			githubURL + "jfrog/jfrog-credentials-provider/issues/91"}, requireResponse(checkDirRoot)},
		{Check{"dir-read-only", "The plugin works in a read-only directory", finding.SeverityError,
			"many nodes have a read-only root file system",
			githubURL + "bitnami/sealed-secrets/issues/200"}, requireResponse(checkDirReadOnly)},
		{Check{"leaves-files", "The plugin leaves no files behind", finding.SeverityWarning,
			"files left behind on each pull fill up the disk and might contain credentials",
			githubURL + "awslabs/amazon-ecr-credential-helper/issues/6"}, checkLeavesFiles},
		{Check{"leaves-process", "The plugin leaves no process that keeps its output open", finding.SeverityError,
			"the kubelet and the pull wait for the process without a timeout",
			githubURL + "golang/go/issues/23019"}, checkEveryRun(checkLingering, "no process kept an exited plugin's output open")},
	}
}

// The functions below skip checks that cannot be run.

// requireResponse returns a check that calls f. The check is skipped if there is no response.
func requireResponse(f func(*suite, *plugin.Response) []Finding) func(*suite) []Finding {
	return func(s *suite) []Finding {
		base := s.baseRun()
		if !base.hasResponse() {
			return skipFinding("the plugin returned no response for %q; see the base-answer check", s.image)
		}
		return f(s, base.exchange.Response)
	}
}

// requireCredential returns a check that calls f. The check is skipped if the response contains
// no credential.
func requireCredential(f func(*suite, *plugin.Response) []Finding) func(*suite) []Finding {
	return requireResponse(func(s *suite, resp *plugin.Response) []Finding {
		if len(resp.Auth) == 0 {
			return skipFinding("the response for %q has no credential; see the answer-empty check", s.image)
		}
		return f(s, resp)
	})
}

// requireInTree returns a check that calls f. The check is skipped for the out-of-tree
// protocol, which lacks the feature what.
func requireInTree(what string, f func(*suite) []Finding) func(*suite) []Finding {
	return func(s *suite) []Finding {
		if s.isOutOfTree() {
			return skipFinding("this test uses the out-of-tree protocol, which has no %s", what)
		}
		return f(s)
	}
}

// requireV1 returns a check that calls f. The check is skipped if the plugin does not support
// v1.
func requireV1(f func(*suite) []Finding) func(*suite) []Finding {
	return func(s *suite) []Finding {
		switch r := s.sendRequest(s.newRequest(plugin.V1)); {
		case r.failedAt(plugin.StageStart):
			return notStartedFinding()
		case !r.hasResponse() && s.baseRun().hasResponse():
			return skipFinding("the plugin does not support v1, the only version with service-account mode")
		}
		return f(s)
	}
}
