// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"context"

	"github.com/regcred/regcred/plugin"
)

// Check describes one check.
type Check struct {
	ID       string   `json:"id"`       // stable, kebab-case
	Title    string   `json:"title"`    // what a good plugin does
	Severity Severity `json:"severity"` // the worst that it can find
	Why      string   `json:"why"`      // what happens otherwise
	Source   string   `json:"source"`   // where it was asked for, or seen to go wrong
}

// check is a Check with its work.
type check struct {
	Check
	run func(*suite) []Finding
}

// examine makes the check. What was interrupted, or could not be asked any more,
// says nothing about the plugin.
func (c check) examine(s *suite) []Finding {
	var findings []Finding
	s.weary = false
	if s.ctx.Err() == nil {
		findings = c.run(s)
	}
	switch {
	case s.ctx.Err() != nil:
		findings = skip("the test was canceled: %v", context.Cause(s.ctx))
	case s.weary:
		findings = skip("%d runs of the plugin hung or took more than half a minute; it is not run again", maxLong)
	}
	for i := range findings {
		findings[i].Check = c.ID
	}
	return findings
}

// Checks returns all checks in the order in which they run.
func Checks() []Check {
	var list []Check
	for _, c := range checks() {
		list = append(list, c.Check)
	}
	return list
}

const (
	kep2133        = "https://github.com/kubernetes/enhancements/issues/2133"
	kep4412        = "https://github.com/kubernetes/enhancements/issues/4412"
	kubeletExec    = "https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/credentialprovider/plugin/plugin.go"
	kubeletKeyring = "https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/credentialprovider/keyring.go"
	github         = "https://github.com/"
)

// checks is the table of all checks, in the order in which they run.
func checks() []check {
	return []check{
		{Check{"binary-runs", "The executable can run on this machine", Error,
			"the kubelet exits if the executable is missing, and reports an exec format error for the wrong architecture",
			github + "siderolabs/talos/issues/11086"}, checkRuns},
		{Check{"binary-static", "The executable needs no library or interpreter from the host", Warning,
			"it fails with \"no such file or directory\" on hosts with another C library or without a shell",
			github + "siderolabs/extensions/pull/706"}, checkStatic},

		{Check{"base-answer", "The plugin returns a response for the image", Error,
			"without a response the kubelet pulls anonymously, and the pull fails with 401",
			github + "kubernetes-sigs/kind/issues/4185"}, checkBase},
		{Check{"version-v1", "A v1 request gets a v1 response", Error,
			"the kubelet rejects a response whose version differs from the request's; only v1 has service-account mode",
			github + "kubernetes/kubernetes/pull/117448"}, todays("versions", checkVersion(plugin.V1))},
		{Check{"version-v1beta1", "A v1beta1 request gets a v1beta1 response or an error", Error,
			"the kubelet rejects a response whose version differs from the request's",
			github + "kubernetes/kubernetes/pull/117448"}, todays("versions", checkVersion(plugin.V1Beta1))},
		{Check{"version-v1alpha1", "A v1alpha1 request gets a v1alpha1 response or an error", Error,
			"the kubelet rejects a response whose version differs from the request's",
			github + "kubernetes-sigs/cluster-api-provider-azure/issues/4110"}, todays("versions", checkVersion(plugin.V1Alpha1))},
		{Check{"version-unknown", "A request with an unknown version is rejected", Error,
			"a plugin cannot know the meaning of a later version, and a response hides the mistake",
			github + "kubernetes/kubernetes/pull/117448"}, todays("apiVersion in a request", refused(malformedUnknownVersion()))},
		{Check{"request-kind", "A request of another kind is rejected", Error,
			"a caller that uses the wrong protocol gets a credential or a confusing error instead of a clear one",
			github + "awslabs/amazon-ecr-credential-helper/issues/616"}, todays("kind in a request", refused(malformedKind()))},
		{Check{"request-unknown-field", "An unknown field is ignored", Error,
			"Kubernetes adds fields to existing versions, as in KEP-4412; a strict plugin fails on the first node that is upgraded",
			kep4412}, todays("future fields", answered(checkUnknownField))},
		{Check{"request-strict", "A request with a duplicate field or trailing data is rejected", Error,
			"two parsers can read different images from such a request",
			kep2133}, checkRequestStrict},
		{Check{"stdin-garbage", "Standard input that is not JSON is rejected", Error,
			"a crash or a hang does not show the user the cause",
			github + "awslabs/amazon-ecr-credential-helper/issues/616"}, refused(malformedGarbage())},
		{Check{"stdin-empty", "Empty standard input is rejected", Error,
			"a user who runs the plugin by hand sees it hang, or gets a response without a request",
			github + "kubernetes/kubernetes/pull/117448"}, refused(malformedEmpty())},
		{Check{"stdin-truncated", "A truncated request is rejected", Error,
			"a truncated image name may be the name of another image",
			kep2133}, refused(malformedTruncated())},
		{Check{"stdin-oversized", "A request of 4 MiB gets a response or an error", Error,
			"a plugin that stops reading or crashes blocks its caller or hides the cause",
			kep4412}, checkOversized},

		{Check{"get-credentials", "The argument get-credentials does not change the current protocol", Error,
			"GKE and EKS configurations pass this argument; on its own it does not select the out-of-tree protocol",
			github + "kubernetes/website/pull/40841"}, checkGetCredentials},
		{Check{"predecessor", "A request of the out-of-tree protocol is rejected, or served in that protocol if get-credentials is given", Error,
			"a request without kind and apiVersion is invalid; only the argument marks it as out-of-tree",
			github + "kubernetes/enhancements/pull/1406"}, checkPredecessor},

		{Check{"answer-json", "Standard output contains only the response", Error,
			"a single log line on standard output makes the response unreadable",
			github + "int128/kubelogin/issues/124"}, checkStage(plugin.StageOutput, "one JSON document",
			"It reports a decoding error, and pulls anonymously.",
			"Write only the response to standard output; write logs to standard error.")},
		{Check{"answer-fields", "The response has only the fields of its kind", Error,
			"the kubelet decodes strictly: an unknown, duplicate or misspelled field invalidates the whole response",
			kubeletExec}, checkStage(plugin.StageDecode, "only known fields",
			"It decodes strictly, rejects the whole response, and pulls anonymously.",
			"Use exactly the fields of the version, in the right case; cacheDuration is a string such as \"10m0s\".")},
		{Check{"cache-key-type", "cacheKeyType is Image, Registry or Global", Error,
			"if it is missing or has another value, the kubelet rejects the response",
			github + "kubernetes/cloud-provider-gcp/issues/226"}, todays("cacheKeyType", checkStage(plugin.StageCacheKeyType, "a valid cacheKeyType",
			"It rejects the response, and pulls anonymously.",
			"Set cacheKeyType to the narrowest of Image, Registry and Global that applies."))},
		{Check{"cache-scope", "The response is the same for every image that cacheKeyType covers", Error,
			"the kubelet reuses the response for another image, which gets no credential or the wrong one",
			github + "kubernetes/kubernetes/pull/92818"}, todays("cacheKeyType", answered(checkScope))},
		{Check{"cache-duration", "cacheDuration is between a second and a day", Error,
			"with the wrong unit, the plugin runs for each pull; a long duration outlives the credential",
			github + "kubernetes/cloud-provider-aws/issues/348"}, answered(checkDuration)},
		{Check{"answer-empty", "The response has a credential", Warning,
			"the kubelet caches an empty response as \"no credential needed\", and pulls anonymously",
			github + "kubernetes-sigs/kind/issues/4185"}, answered(checkEmpty)},
		{Check{"empty-global", "A response without credentials is not Global", Warning,
			"the kubelet then does not call the plugin for any image until the response expires",
			github + "kubernetes/kubernetes/issues/92326"}, todays("cacheKeyType", answered(checkEmptyGlobal))},
		{Check{"answer-stable", "The same request gets the same keys, user names and scope", Warning,
			"otherwise chance decides which credential a pull gets",
			github + "google/go-containerregistry/issues/1431"}, answered(checkStable)},
		{Check{"auth-key-match", "An auth key matches the requested image", Error,
			"the kubelet matches keys like matchImages patterns, and pulls anonymously if no key matches",
			github + "kubernetes-sigs/kind/issues/4185"}, todays("auth keys", withCredential(checkKeyMatch))},
		{Check{"auth-key-dead", "Every auth key can match some image", Warning,
			"the kubelet accepts keys with path globs, upper case or an unused port, but never uses them",
			github + "kubernetes/kubernetes/issues/119941"}, todays("auth keys", withCredential(checkKeyDead))},
		{Check{"auth-key-wide", "No auth key matches registries outside your control", Warning,
			"the password is sent to every registry that the key matches",
			github + "sse-secure-systems/connaisseur/pull/2166"}, todays("auth keys", withCredential(checkKeyWide))},
		{Check{"auth-key-port", "For an image with another port, every key matches it", Info,
			"a key without a port never matches an image with a port, so the response is useless",
			kubeletKeyring}, todays("auth keys", answered(checkKeyPort))},
		{Check{"foreign-host", "A lookalike registry gets no credential", Info,
			"only matchImages then protects the password from a mistyped image name",
			github + "chrismellard/docker-credential-acr-env/issues/21"}, answered(checkForeign)},
		{Check{"credential-empty", "No user name or password is empty", Error,
			"the kubelet pulls with half a credential, and the error blames the registry instead of the plugin",
			github + "bazel-contrib/rules_oci/pull/731"}, withCredential(checkEmptyCredential)},
		{Check{"credential-space", "No user name or password begins or ends with white space", Warning,
			"the trailing newline of a password file becomes part of the password, and the registry returns 401",
			github + "charmed-kubernetes/bundle/issues/384"}, withCredential(checkSpace)},

		{Check{"token-absent", "A v1 request with annotations but no token gets a response or an error", Error,
			"with requireServiceAccount: false, the plugin also runs for pods without a service account",
			kep4412}, todays("service-account mode", inV1(checkTokenAbsent))},
		{Check{"token-used", "With tokenAttributes, the response depends on the token", Warning,
			"otherwise every service account costs a token and a plugin run for the same response",
			kep4412}, todays("service-account mode", inV1(checkTokenUsed))},
		{Check{"token-echo", "The service account token is not the password", Error,
			"the kubelet rejects such a response unless cacheType is Token",
			github + "kubernetes/kubernetes/issues/140065"}, todays("service-account mode", inV1(checkTokenEcho))},
		{Check{"token-old-version", "A token in v1beta1 or v1alpha1 is ignored", Warning,
			"only v1 has this field; the plugin does not check the request's version",
			kep4412}, todays("service-account mode", checkTokenOldVersion)},

		{Check{"exit-code", "The exit code is 0 with a response and nonzero without one", Error,
			"the kubelet discards a response with a nonzero exit code, and exit code 0 without a response hides the cause",
			kubeletExec}, every(exitCode, "exit code 0 with a response, nonzero without one")},
		{Check{"failure-stdout", "A plugin that fails writes nothing to standard output", Warning,
			"the kubelet logs only standard error; text on standard output is lost",
			github + "kubernetes/kubernetes/pull/117448"}, every(failureStdout, "no failed run wrote to standard output")},
		{Check{"failure-message", "A plugin that fails prints the reason to standard error", Warning,
			"otherwise the kubelet logs only the exit status",
			github + "kubernetes/kubernetes/pull/117448"}, every(failureMessage, "every failed run wrote to standard error")},
		{Check{"crash", "The plugin does not crash", Error,
			"a stack trace fills the kubelet's log and hides the reason",
			github + "oracle-devrel/oke-credential-provider-for-ocir/issues/4"}, every(crash, "no run crashed")},
		{Check{"stderr-secret", "No secret is written to standard error", Error,
			"the kubelet logs the standard error of a failed plugin",
			github + "kubernetes/kubernetes/issues/95622"}, every(stderrSecret, "no token or password on standard error")},
		{Check{"stderr-volume", "Standard error stays below 4 KiB", Warning,
			"the kubelet logs all of it in one line, at each pull",
			github + "kubernetes/kubernetes/pull/117448"}, every(stderrVolume, "no run wrote more than 4 KiB to standard error")},
		{Check{"stderr-usage", "A plugin that fails does not print its usage", Warning,
			"the reason is lost above thirty lines of flags",
			github + "kubernetes/kubernetes/pull/117448"}, every(stderrUsage, "no failed run printed its usage")},

		{Check{"time-to-answer", "The response comes within ten seconds", Error,
			"the kubelet kills the plugin after a minute, and each pull waits for it",
			github + "kubernetes/kubernetes/pull/108209"}, checkTime},
		{Check{"sigterm", "A plugin that waits for input exits within five seconds of SIGTERM", Warning,
			"during shutdown the host waits for the plugin, then kills it mid-operation",
			github + "docker/docker-credential-helpers/issues/355"}, checkSIGTERM},
		{Check{"concurrent", "Concurrent runs return the same response", Error,
			"the kubelet runs one per image concurrently; shared files or locks fail when a node starts",
			github + "oracle-devrel/oke-credential-provider-for-ocir/issues/4"}, answered(checkConcurrent)},

		{Check{"env-empty", "The plugin works with an empty environment", Warning,
			"the kubelet's environment is not a shell's: PATH and the locale may be unset",
			github + "kubernetes/kubernetes/issues/102750"}, answered(checkEnvEmpty)},
		{Check{"env-no-home", "The plugin works without HOME", Error,
			"a system service has no HOME: the plugin works by hand but fails in the kubelet",
			github + "awslabs/amazon-ecr-credential-helper/issues/161"}, answered(checkEnvHome)},
		{Check{"dir-root", "The plugin works in the directory /", Error,
			"systemd starts the kubelet in /",
			github + "jfrog/jfrog-credentials-provider/issues/91"}, answered(checkDirRoot)},
		{Check{"dir-read-only", "The plugin works in a read-only directory", Error,
			"the root file system of many nodes is read-only",
			github + "bitnami/sealed-secrets/issues/200"}, answered(checkDirReadOnly)},
		{Check{"leaves-files", "The plugin leaves no files behind", Warning,
			"files left at each pull fill the disk, and may contain credentials",
			github + "awslabs/amazon-ecr-credential-helper/issues/6"}, checkLeavesFiles},
		{Check{"leaves-process", "The plugin leaves no process that keeps its output open", Error,
			"the kubelet waits for that process without a timeout, and so does the pull",
			github + "golang/go/issues/23019"}, every(lingering, "no process kept the output of an exited plugin open")},
	}
}
