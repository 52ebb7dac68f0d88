// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/regcred/regcred/internal/spelling"
)

// This file knows what people put into a configuration that belongs somewhere
// else: other kinds of files, and fields of other levels and programs.

// otherKinds are documents that are given in place of a configuration.
var otherKinds = map[string]string{
	"KubeletConfiguration":    "the kubelet's main configuration; --image-credential-provider-config takes a file of its own, of kind " + Kind,
	"Secret":                  "a Secret, which pods name in imagePullSecrets; the kubelet's configuration of plugins is a file of kind " + Kind,
	"ConfigMap":               "a ConfigMap; if its data has the configuration, write that text to a file of its own",
	"ExecCredential":          "what a plugin of kubectl answers; the configuration of the kubelet's plugins is of kind " + Kind,
	"Config":                  "a kubeconfig, or of another program; the configuration of the kubelet's plugins is of kind " + Kind,
	"EncryptionConfiguration": "of the API server; the configuration of the kubelet's plugins is of kind " + Kind,
	"ClusterConfiguration":    kubeadm,
	"InitConfiguration":       kubeadm,
	"JoinConfiguration":       kubeadm,
	"NodeConfig":              "of nodeadm, which writes the kubelet's configurations itself; the one of its plugins is of kind " + Kind,
	"MachineConfig":           "of an operator that writes files to nodes; the file that it writes is of kind " + Kind,

	"CredentialProviderRequest":  protocol,
	"CredentialProviderResponse": protocol,
}

const (
	kubeadm  = "of kubeadm, where image-credential-provider-config is one of nodeRegistration.kubeletExtraArgs; the file that it names is of kind " + Kind
	protocol = "what kubelet and plugin say to each other, of " + protocolGroup + "; the file is of kind " + Kind + " in " + V1
)

// otherKind says what a kind is that is none of ours.
func otherKind(kind string) string {
	if what := otherKinds[kind]; what != "" {
		return what
	}
	if d := spelling.Distance(strings.ToLower(kind), strings.ToLower(Kind)); d == 0 {
		return "did you mean " + Kind + "? (case matters)"
	} else if d <= 4 {
		return "did you mean " + Kind + "?"
	}
	return "another kind of document: it must be " + Kind
}

// otherFile says what a file is that has no kind, by fields that only such files
// have; "" if that cannot be told.
func otherFile(fields map[string]any) string {
	for _, known := range []struct{ what, names string }{
		{"a docker config file (of logins): a kubelet reads it as config.json in its root directory; the configuration of plugins is of kind " + Kind, "auths credHelpers credsStore"},
		{"a kubeconfig: the configuration of plugins is of kind " + Kind, "clusters contexts users current-context"},
		{"a Secret or ConfigMap: the configuration of plugins is of kind " + Kind, "data stringData"},
		{otherKinds["KubeletConfiguration"], "clusterDNS cgroupDriver staticPodPath authentication authorization"},
	} {
		for name := range strings.FieldsSeq(known.names) {
			if _, has := fields[name]; has {
				return known.what
			}
		}
	}
	return ""
}

// isTOML reports whether a text has a line that TOML has, and YAML takes for a text.
func isTOML(text []byte) bool {
	toml := regexp.MustCompile(`(?m)^[ \t]*(?:[\w."-]+[ \t]*=[ \t]*\S|\[\[?[\w."-]+\]\]?[ \t]*\r?$)`)
	return toml.Match(text) && !bytes.Contains(text, []byte("kind:"))
}

// template returns where the first action of a template stands that nobody has
// rendered, as Go and Helm have them; -1 if there is none outside of quotes and
// comments, where it breaks nothing.
func template(text []byte) int {
	for at := 0; ; at += len("{{") {
		next := bytes.Index(text[at:], []byte("{{"))
		if next < 0 || !bytes.Contains(text[at+next:], []byte("}}")) {
			return -1
		}
		at += next
		if plainText(text[bytes.LastIndexByte(text[:at], '\n')+1 : at]) {
			return at
		}
	}
}

// isTemplate is said of a text that has an action of a template in it.
const isTemplate = "a template ({{ … }}) that was never rendered; render it first, such as with \"helm template\""

// The levels of a configuration, by a field that only they have.
const (
	levelFile     = "providers"
	levelProvider = "matchImages"
	levelTokens   = "serviceAccountTokenAudience"
)

const (
	ofProvider = "a field of a provider: it belongs into an item of providers"
	ofTokens   = "a field of tokenAttributes: it belongs one level lower"
	ofFile     = "a field of the file: it belongs at the top"
	ofObjects  = "objects of the Kubernetes API have it; the fields of this file stand at its top"
	ofFlags    = "a flag of the kubelet, and no field of any file"
	ofKubelet  = "a field of KubeletConfiguration, which is another file"
	ofDocker   = "a field of docker's config.json, which is another file"
	ofAnswer   = "a field of the plugin's response"
	ofExec     = "a field of a kubeconfig's exec"
	ofRuntime  = "a setting of a container runtime's registries, which is another file"
	noLogins   = "no credentials stand here: a plugin gives them"
)

// elsewhere says where a field belongs that a level does not have: first by the
// level, then for all.
var elsewhere = map[string]map[string]string{
	levelFile: {
		"name": ofProvider, "matchImages": ofProvider, "defaultCacheDuration": ofProvider, "args": ofProvider, "env": ofProvider, "tokenAttributes": ofProvider,
	},
	levelProvider: {
		"serviceAccountTokenAudience": ofTokens, "cacheType": ofTokens, "requireServiceAccount": ofTokens,
		"requiredServiceAccountAnnotationKeys": ofTokens, "optionalServiceAccountAnnotationKeys": ofTokens, "audience": "did you mean serviceAccountTokenAudience, of tokenAttributes?",
		"kind": ofFile, "providers": ofFile,
		"command": ofExec + ": here it is name, the name of a file in the kubelet's --image-credential-provider-bin-dir",
		"path":    "did you mean name, the name of a file in the kubelet's --image-credential-provider-bin-dir?", "binary": "did you mean name?", "executable": "did you mean name?",
		"cacheDuration": ofAnswer + ": here it is defaultCacheDuration", "cacheKeyType": ofAnswer,
		"timeout": "a kubelet gives each plugin a minute, and has no setting for it",
	},
	levelTokens: {
		"audience": "did you mean serviceAccountTokenAudience?", "name": ofHigher, "matchImages": ofHigher, "defaultCacheDuration": ofHigher, "apiVersion": ofHigher, "args": ofHigher, "env": ofHigher,
		"cacheKeyType": ofAnswer + ": here it is cacheType", "requiredAnnotations": "did you mean requiredServiceAccountAnnotationKeys?", "optionalAnnotations": "did you mean optionalServiceAccountAnnotationKeys?",
	},
	"": {
		"metadata": ofObjects, "spec": ofObjects, "status": ofObjects, "data": ofObjects,
		"imageCredentialProviderConfig": ofFlags, "imageCredentialProviderConfigFile": ofFlags, "imageCredentialProviderBinDir": ofFlags,
		"authentication": ofKubelet, "authorization": ofKubelet, "clusterDNS": ofKubelet, "clusterDomain": ofKubelet, "cgroupDriver": ofKubelet, "featureGates": ofKubelet,
		"registryPullQPS": ofKubelet, "serializeImagePulls": ofKubelet, "staticPodPath": ofKubelet,
		"auths": ofDocker, "credHelpers": ofDocker, "credsStore": ofDocker, "auth": ofAnswer, "cacheKeyType": ofAnswer, "cacheDuration": ofAnswer,
		"interactiveMode": ofExec, "provideClusterInfo": ofExec, "installHint": ofExec,
		"mirrors": ofRuntime, "configs": ofRuntime, "endpoint": ofRuntime, "registry": ofRuntime, "username": noLogins, "password": noLogins, "token": noLogins,
	},
}

const ofHigher = "a field of the provider: it belongs one level higher"

// placeOf says where a field belongs that a mapping does not have.
func (s *shape) placeOf(name string) string {
	for _, level := range []string{levelFile, levelProvider, levelTokens} {
		if s.fields[level] != nil && elsewhere[level][name] != "" {
			return elsewhere[level][name]
		}
	}
	if s.fields[levelFile] != nil || s.fields[levelProvider] != nil || s.fields[levelTokens] != nil {
		return elsewhere[""][name]
	}
	return ""
}
