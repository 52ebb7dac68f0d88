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
	"KubeletConfiguration":    "the kubelet's main configuration, but --image-credential-provider-config needs a separate file of kind " + Kind,
	"Secret":                  "a Secret for imagePullSecrets, but the kubelet needs a file of kind " + Kind,
	"ConfigMap":               "a ConfigMap: copy the configuration from its data field to a separate file",
	"ExecCredential":          "a response from a kubectl credential plugin, but the kubelet needs a file of kind " + Kind,
	"Config":                  "a kubeconfig or another program's configuration, but the kubelet needs a file of kind " + Kind,
	"EncryptionConfiguration": "an API server configuration, but the kubelet needs a file of kind " + Kind,
	"ClusterConfiguration":    kubeadm,
	"InitConfiguration":       kubeadm,
	"JoinConfiguration":       kubeadm,
	"NodeConfig":              "a nodeadm configuration: use the file that nodeadm generates from it; that file has kind " + Kind,
	"MachineConfig":           "an operator's configuration: use the file that the operator writes; that file has kind " + Kind,

	"CredentialProviderRequest":  protocol,
	"CredentialProviderResponse": protocol,
}

const (
	kubeadm  = "a kubeadm configuration: use the file that is set as image-credential-provider-config in kubeletExtraArgs; that file has kind " + Kind
	protocol = "a request or response exchanged by the kubelet and a plugin, in API group " + protocolGroup + ": use a file of kind " + Kind + " of version " + V1
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
	return "unsupported kind: must be " + Kind
}

// otherFile says what a file is that has no kind, by fields that only such files
// have; "" if that cannot be told.
func otherFile(fields map[string]any) string {
	for _, known := range []struct{ what, names string }{
		{"a docker config.json, but the kubelet needs a file of kind " + Kind, "auths credHelpers credsStore"},
		{"a kubeconfig, but the kubelet needs a file of kind " + Kind, "clusters contexts users current-context"},
		{"a Secret or ConfigMap, but the kubelet needs a file of kind " + Kind, "data stringData"},
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
const isTemplate = "an unrendered template ({{ … }}); render it first, for example with \"helm template\""

// The levels of a configuration, by a field that only they have.
const (
	levelFile     = "providers"
	levelProvider = "matchImages"
	levelTokens   = "serviceAccountTokenAudience"
)

const (
	ofProvider = "this field belongs in a providers entry"
	ofTokens   = "this field belongs in tokenAttributes"
	ofFile     = "this field belongs at the top level of the file"
	ofObjects  = "this field belongs in Kubernetes API objects, not in this file"
	ofFlags    = "this is a kubelet flag, not a field in this file"
	ofKubelet  = "this field belongs in a KubeletConfiguration file"
	ofDocker   = "this field belongs in docker's config.json"
	ofAnswer   = "this field belongs in the plugin's response"
	ofExec     = "this field belongs in the exec section of a kubeconfig"
	ofRuntime  = "this field belongs in the container runtime's configuration"
	noLogins   = "credentials are not allowed here; they must come from a plugin"
)

// elsewhere says where a field belongs that a level does not have: first by the
// level, then for all.
var elsewhere = map[string]map[string]string{
	levelFile: {
		"name": ofProvider, "matchImages": ofProvider, "defaultCacheDuration": ofProvider, "args": ofProvider, "env": ofProvider, "tokenAttributes": ofProvider,
	},
	levelProvider: {
		"serviceAccountTokenAudience": ofTokens, "cacheType": ofTokens, "requireServiceAccount": ofTokens,
		"requiredServiceAccountAnnotationKeys": ofTokens, "optionalServiceAccountAnnotationKeys": ofTokens, "audience": "did you mean serviceAccountTokenAudience in tokenAttributes?",
		"kind": ofFile, "providers": ofFile,
		"command": ofExec + "; use the name field, which is a file name in the kubelet's --image-credential-provider-bin-dir",
		"path":    "did you mean the name field, which is a file name in the kubelet's --image-credential-provider-bin-dir?", "binary": "did you mean name?", "executable": "did you mean name?",
		"cacheDuration": ofAnswer + "; use defaultCacheDuration", "cacheKeyType": ofAnswer,
		"timeout": "the kubelet's plugin timeout is always one minute",
	},
	levelTokens: {
		"audience": "did you mean serviceAccountTokenAudience?", "name": ofHigher, "matchImages": ofHigher, "defaultCacheDuration": ofHigher, "apiVersion": ofHigher, "args": ofHigher, "env": ofHigher,
		"cacheKeyType": ofAnswer + "; use cacheType", "requiredAnnotations": "did you mean requiredServiceAccountAnnotationKeys?", "optionalAnnotations": "did you mean optionalServiceAccountAnnotationKeys?",
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

const ofHigher = "this field belongs in the provider, one level up"

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
