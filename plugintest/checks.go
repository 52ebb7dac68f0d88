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
		findings = skip("the examination was stopped: %v", context.Cause(s.ctx))
	case s.weary:
		findings = skip("the plugin hung in %d runs, or took half a minute and more: it is not run again", maxLong)
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
			"the kubelet exits for a missing executable, and reports another machine's as an exec format error",
			github + "siderolabs/talos/issues/11086"}, checkRuns},
		{Check{"binary-static", "The executable needs no library and no interpreter of the host", Warning,
			"it fails with \"no such file or directory\" on hosts with another C library, or without a shell",
			github + "siderolabs/extensions/pull/706"}, checkStatic},

		{Check{"base-answer", "The plugin answers for the image", Error,
			"a kubelet that gets no answer pulls anonymously, and the pull fails with 401",
			github + "kubernetes-sigs/kind/issues/4185"}, checkBase},
		{Check{"version-v1", "A request in v1 is answered in v1", Error,
			"an answer in another version than the request is dropped; only v1 has service-account mode",
			github + "kubernetes/kubernetes/pull/117448"}, todays("versions", checkVersion(plugin.V1))},
		{Check{"version-v1beta1", "A request in v1beta1 is answered in v1beta1, or refused", Error,
			"an answer in another version than the request is dropped",
			github + "kubernetes/kubernetes/pull/117448"}, todays("versions", checkVersion(plugin.V1Beta1))},
		{Check{"version-v1alpha1", "A request in v1alpha1 is answered in v1alpha1, or refused", Error,
			"an answer in another version than the request is dropped",
			github + "kubernetes-sigs/cluster-api-provider-azure/issues/4110"}, todays("versions", checkVersion(plugin.V1Alpha1))},
		{Check{"version-unknown", "A request in an unknown version is refused", Error,
			"a plugin cannot know what a later version means, and its answer hides the mistake",
			github + "kubernetes/kubernetes/pull/117448"}, todays("apiVersion in a request", refused(malformedUnknownVersion()))},
		{Check{"request-kind", "A request of another kind is refused", Error,
			"whoever calls it by mistake gets a credential, or a riddle, where an error was due",
			github + "awslabs/amazon-ecr-credential-helper/issues/616"}, todays("kind in a request", refused(malformedKind()))},
		{Check{"request-unknown-field", "A field that the plugin does not know is ignored", Error,
			"Kubernetes adds fields within a version, as KEP-4412 did: the plugin fails on the node that is updated first",
			kep4412}, todays("fields yet to come", answered(checkUnknownField))},
		{Check{"request-strict", "A request with a field twice, or with something behind it, is refused", Error,
			"two readers of such a request can take it for two different images",
			kep2133}, checkRequestStrict},
		{Check{"stdin-garbage", "Standard input that is not JSON is refused", Error,
			"a crash or a hang does not tell the user what was wrong",
			github + "awslabs/amazon-ecr-credential-helper/issues/616"}, refused(malformedGarbage())},
		{Check{"stdin-empty", "Empty standard input is refused", Error,
			"somebody who tries the plugin by hand sees it hang, or answer a question that nobody asked",
			github + "kubernetes/kubernetes/pull/117448"}, refused(malformedEmpty())},
		{Check{"stdin-truncated", "A request that ends in the middle is refused", Error,
			"half an image name is another image's name",
			kep2133}, refused(malformedTruncated())},
		{Check{"stdin-oversized", "A request of 4 MiB is answered or refused", Error,
			"a plugin that stops reading, or dies, blocks or confuses its caller",
			kep4412}, checkOversized},

		{Check{"get-credentials", "The argument get-credentials changes nothing about today's protocol", Error,
			"configurations of GKE and EKS pass it: the argument alone does not mean the protocol before today's",
			github + "kubernetes/website/pull/40841"}, checkGetCredentials},
		{Check{"predecessor", "A request of the protocol before today's is refused, or answered in that protocol if get-credentials is given", Error,
			"a request without kind and apiVersion is nobody's; only the argument says that it is the predecessor's",
			github + "kubernetes/enhancements/pull/1406"}, checkPredecessor},

		{Check{"answer-json", "Standard output is the answer and nothing else", Error,
			"one line of log on standard output makes the answer unreadable",
			github + "int128/kubelogin/issues/124"}, checkStage(plugin.StageOutput, "one JSON document",
			"It reports that the answer cannot be decoded, and pulls anonymously.",
			"Write the answer to standard output and nothing else; logs belong on standard error.")},
		{Check{"answer-fields", "The answer has the fields of its kind and no others", Error,
			"the kubelet decodes strictly: an unknown, doubled or wrongly spelled field drops the whole answer",
			kubeletExec}, checkStage(plugin.StageDecode, "the fields of its kind",
			"It decodes strictly, drops the whole answer, and pulls anonymously.",
			"Write exactly the fields of the version, in their case; cacheDuration is text such as \"10m0s\".")},
		{Check{"cache-key-type", "cacheKeyType is Image, Registry or Global", Error,
			"with anything else, or without it, the kubelet drops the answer",
			github + "kubernetes/cloud-provider-gcp/issues/226"}, todays("cacheKeyType", checkStage(plugin.StageCacheKeyType, "a valid cacheKeyType",
			"It drops the answer, and pulls anonymously.",
			"Set cacheKeyType to the narrowest of Image, Registry and Global that is true."))},
		{Check{"cache-scope", "The answer is the same for every image that cacheKeyType promises it for", Error,
			"the kubelet hands one image's answer to another, which then gets no credential or a wrong one",
			github + "kubernetes/kubernetes/pull/92818"}, todays("cacheKeyType", answered(checkScope))},
		{Check{"cache-duration", "cacheDuration is between a second and a day", Error,
			"a slip of units makes one run of each pull, a long one outlives the credential",
			github + "kubernetes/cloud-provider-aws/issues/348"}, answered(checkDuration)},
		{Check{"answer-empty", "The answer has a credential", Warning,
			"a kubelet takes an empty answer for \"none needed\", caches it, and pulls anonymously",
			github + "kubernetes-sigs/kind/issues/4185"}, answered(checkEmpty)},
		{Check{"empty-global", "An answer without credentials is not Global", Warning,
			"a kubelet then asks the plugin for no image at all until the answer expires",
			github + "kubernetes/kubernetes/issues/92326"}, todays("cacheKeyType", answered(checkEmptyGlobal))},
		{Check{"answer-stable", "The same request gets the same keys, user names and scope", Warning,
			"which credential a pull gets depends on chance",
			github + "google/go-containerregistry/issues/1431"}, answered(checkStable)},
		{Check{"auth-key-match", "An auth key matches the image asked for", Error,
			"the kubelet matches each key as it matches matchImages, and pulls anonymously if none does",
			github + "kubernetes-sigs/kind/issues/4185"}, todays("auth keys", withCredential(checkKeyMatch))},
		{Check{"auth-key-dead", "Every auth key can match some image", Warning,
			"globs in a path, capitals, a port that no image has: the kubelet accepts such keys, and never uses them",
			github + "kubernetes/kubernetes/issues/119941"}, todays("auth keys", withCredential(checkKeyDead))},
		{Check{"auth-key-wide", "No auth key matches registries outside your control", Warning,
			"the password is sent to every registry that the key matches",
			github + "sse-secure-systems/connaisseur/pull/2166"}, todays("auth keys", withCredential(checkKeyWide))},
		{Check{"auth-key-port", "For an image with another port, no key is given in vain", Info,
			"a key without a port never matches an image with one, so the answer is in vain",
			kubeletKeyring}, todays("auth keys", answered(checkKeyPort))},
		{Check{"foreign-host", "A lookalike of the registry gets no credential", Info,
			"only matchImages then stands between a mistyped image and the password",
			github + "chrismellard/docker-credential-acr-env/issues/21"}, answered(checkForeign)},
		{Check{"credential-empty", "No user name and no password is empty", Error,
			"the pull goes out with half a credential, and the error names the registry instead of the plugin",
			github + "bazel-contrib/rules_oci/pull/731"}, withCredential(checkEmptyCredential)},
		{Check{"credential-space", "No user name and no password begins or ends with white space", Warning,
			"the line end of a password file becomes part of the password, and the registry says 401",
			github + "charmed-kubernetes/bundle/issues/384"}, withCredential(checkSpace)},

		{Check{"token-absent", "A v1 request with annotations and without a token is answered or refused", Error,
			"with requireServiceAccount: false the plugin runs for pods without a service account too",
			kep4412}, todays("service-account mode", inV1(checkTokenAbsent))},
		{Check{"token-used", "With tokenAttributes, the token decides about the answer", Warning,
			"every service account costs a token and a run of the plugin, for the same answer",
			kep4412}, todays("service-account mode", inV1(checkTokenUsed))},
		{Check{"token-echo", "The service-account token is not the password", Error,
			"the kubelet refuses such an answer unless the configuration says cacheType: Token",
			github + "kubernetes/kubernetes/issues/140065"}, todays("service-account mode", inV1(checkTokenEcho))},
		{Check{"token-old-version", "A token in v1beta1 or v1alpha1 is ignored", Warning,
			"only v1 has the field: the plugin reads requests by guess, not by version",
			kep4412}, todays("service-account mode", checkTokenOldVersion)},

		{Check{"exit-code", "The exit code is 0 with an answer, and not 0 without", Error,
			"an answer with another exit code is thrown away, and exit code 0 without one hides the reason",
			kubeletExec}, every(exitCode, "exit code 0 with an answer, another one without")},
		{Check{"failure-stdout", "A plugin that fails writes nothing to standard output", Warning,
			"the kubelet shows standard error alone: what stands on standard output is lost",
			github + "kubernetes/kubernetes/pull/117448"}, every(failureStdout, "no run that failed wrote to standard output")},
		{Check{"failure-message", "A plugin that fails says why on standard error", Warning,
			"an exit status is all that the kubelet's log says",
			github + "kubernetes/kubernetes/pull/117448"}, every(failureMessage, "each run that failed said something")},
		{Check{"crash", "The plugin does not crash", Error,
			"a stack trace fills the log of the kubelet with everything but the reason",
			github + "oracle-devrel/oke-credential-provider-for-ocir/issues/4"}, every(crash, "no run crashed")},
		{Check{"stderr-secret", "No secret is written to standard error", Error,
			"the kubelet pastes standard error of a plugin that fails into its log",
			github + "kubernetes/kubernetes/issues/95622"}, every(stderrSecret, "neither token nor password on standard error")},
		{Check{"stderr-volume", "Standard error stays below 4 KiB", Warning,
			"the kubelet pastes the whole of it into one line of its log, at each pull",
			github + "kubernetes/kubernetes/pull/117448"}, every(stderrVolume, "no run wrote more than 4 KiB to standard error")},
		{Check{"stderr-usage", "A plugin that fails does not print its usage", Warning,
			"the reason stands before thirty lines of flags, and nobody reads it",
			github + "kubernetes/kubernetes/pull/117448"}, every(stderrUsage, "no run that failed printed its usage")},

		{Check{"time-to-answer", "The answer comes within ten seconds", Error,
			"the kubelet kills the plugin after a minute, and each pull waits for it",
			github + "kubernetes/kubernetes/pull/108209"}, checkTime},
		{Check{"sigterm", "A plugin that waits for its input ends within five seconds of SIGTERM", Warning,
			"a host that shuts down waits for it, and then kills it in the middle of something",
			github + "docker/docker-credential-helpers/issues/355"}, checkSIGTERM},
		{Check{"concurrent", "Many plugins side by side give the same answer", Error,
			"a kubelet runs one for each image at once: a shared file or lock breaks when a node starts",
			github + "oracle-devrel/oke-credential-provider-for-ocir/issues/4"}, answered(checkConcurrent)},

		{Check{"env-empty", "The plugin works with an empty environment", Warning,
			"a kubelet's environment is not that of a shell: there may be no PATH and no locale",
			github + "kubernetes/kubernetes/issues/102750"}, answered(checkEnvEmpty)},
		{Check{"env-no-home", "The plugin works without HOME", Error,
			"a system service has no HOME: the plugin works by hand and fails in the kubelet",
			github + "awslabs/amazon-ecr-credential-helper/issues/161"}, answered(checkEnvHome)},
		{Check{"dir-root", "The plugin works in the directory /", Error,
			"a kubelet under systemd runs there",
			github + "jfrog/jfrog-credentials-provider/issues/91"}, answered(checkDirRoot)},
		{Check{"dir-read-only", "The plugin works in a directory that it cannot write to", Error,
			"the root file system of many nodes is read-only",
			github + "bitnami/sealed-secrets/issues/200"}, answered(checkDirReadOnly)},
		{Check{"leaves-files", "The plugin leaves no file behind", Warning,
			"what it leaves at each pull fills the disk, and holds credentials",
			github + "awslabs/amazon-ecr-credential-helper/issues/6"}, checkLeavesFiles},
		{Check{"leaves-process", "The plugin leaves no process running that holds its output", Error,
			"a kubelet waits for it without a bound, and so does the pull",
			github + "golang/go/issues/23019"}, every(lingering, "nothing held standard output or standard error of a plugin that had ended")},
	}
}
