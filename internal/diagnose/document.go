// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package diagnose

import (
	"bytes"
	"strings"

	"github.com/regcred/regcred/internal/spelling"
)

const (
	hintNeedsConfigFile = ", but the kubelet needs a file of kind " + providerConfigKind
	hintKubeadmConfig   = "a kubeadm configuration: use the file that is set as image-credential-provider-config in kubeletExtraArgs; that file has kind " + providerConfigKind
	hintMessageKind     = "a request or response exchanged by the kubelet and a plugin, in API group credentialprovider.kubelet.k8s.io: use a file of kind " + providerConfigKind + " of version kubelet.config.k8s.io/v1"
	hintKubeletConfig   = "the kubelet's main configuration, but --image-credential-provider-config needs a separate file of kind " + providerConfigKind
)

// otherKindHints explains kinds of files that users pass by mistake instead of a
// CredentialProviderConfig.
var otherKindHints = map[string]string{
	"KubeletConfiguration":       hintKubeletConfig,
	"Secret":                     "a Secret for imagePullSecrets" + hintNeedsConfigFile,
	"ConfigMap":                  "a ConfigMap: copy the configuration from its data field to a separate file",
	"ExecCredential":             "a response from a kubectl credential plugin" + hintNeedsConfigFile,
	"Config":                     "a kubeconfig or another program's configuration" + hintNeedsConfigFile,
	"ClusterConfiguration":       hintKubeadmConfig,
	"InitConfiguration":          hintKubeadmConfig,
	"JoinConfiguration":          hintKubeadmConfig,
	"NodeConfig":                 "a nodeadm configuration: use the file that nodeadm generates from it; that file has kind " + providerConfigKind,
	"CredentialProviderRequest":  hintMessageKind,
	"CredentialProviderResponse": hintMessageKind,
}

// ExplainKind explains a kind that does not belong to a configuration.
func ExplainKind(kind string) string {
	if text := otherKindHints[kind]; text != "" {
		return text
	}
	if d := spelling.Distance(strings.ToLower(kind), strings.ToLower(providerConfigKind)); d == 0 {
		return "did you mean " + providerConfigKind + "? (case matters)"
	} else if d <= 4 {
		return "did you mean " + providerConfigKind + "?"
	}
	return "unsupported kind: must be " + providerConfigKind
}

// ExplainDocument explains a document without a kind. It recognizes the document by fields
// that only certain files have, and returns "" if there are none.
func ExplainDocument(fields map[string]any) string {
	for _, file := range []struct{ text, fields string }{
		{"a docker config.json" + hintNeedsConfigFile, "auths credHelpers credsStore"},
		{"a kubeconfig" + hintNeedsConfigFile, "clusters contexts users current-context"},
		{"a Secret or ConfigMap" + hintNeedsConfigFile, "data stringData"},
		{hintKubeletConfig, "clusterDNS cgroupDriver staticPodPath authentication authorization"},
	} {
		for name := range strings.FieldsSeq(file.fields) {
			if _, ok := fields[name]; ok {
				return file.text
			}
		}
	}
	return ""
}

// IsTOML reports whether text, which YAML parses as a single string, contains a TOML table
// or assignment.
func IsTOML(text []byte) bool {
	const keyBytes = `ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."`
	isKey := func(s []byte) bool { return len(s) > 0 && len(bytes.Trim(s, keyBytes)) == 0 }
	for line := range bytes.Lines(text) {
		line = bytes.Trim(line, " \t\r\n")
		key, value, assigns := bytes.Cut(line, []byte("="))
		table := bytes.HasPrefix(line, []byte("[")) && bytes.HasSuffix(line, []byte("]")) && isKey(bytes.Trim(line, "[]"))
		if table || assigns && isKey(bytes.TrimRight(key, " \t")) && len(bytes.TrimLeft(value, " \t")) > 0 {
			return !bytes.Contains(text, []byte("kind:"))
		}
	}
	return false
}

// TemplateProblem describes a file that contains template actions.
const TemplateProblem = "an unrendered template ({{ … }}); render it first, for example with \"helm template\""

// TemplateOffset returns the offset of the first template action outside quotes and
// comments, or -1.
func TemplateOffset(text []byte) int {
	for at := 0; ; at += len("{{") {
		next := bytes.Index(text[at:], []byte("{{"))
		if next < 0 || !bytes.Contains(text[at+next:], []byte("}}")) {
			return -1
		}
		at += next
		if IsUnquoted(text[bytes.LastIndexByte(text[:at], '\n')+1 : at]) {
			return at
		}
	}
}

// IsUnquoted reports whether a position in a line is outside quotes and comments. before is
// the part of the line before this position.
func IsUnquoted(before []byte) bool {
	text := strings.TrimLeft(string(before), " \t")
	return strings.Count(text, `"`)%2 == 0 && strings.Count(text, "'")%2 == 0 && !strings.HasPrefix(text, "#") && !strings.Contains(text, " #")
}

// yamlErrorCauses maps parts of the YAML parser's error messages to causes.
var yamlErrorCauses = []struct{ text, cause string }{
	{"mapping values are not allowed", "unexpected colon; check the indentation, and quote values that contain a colon"},
	{"could not find expected ':'", "missing colon after a field name; check the indentation and the quotes"},
	{"did not find expected key", "expected a field here; check the indentation and the quotes"},
	{"did not find expected '-' indicator", "expected a list item here; check the indentation"},
	{"did not find expected ',' or", "missing comma or closing bracket before this position"},
	{"did not find expected node content", "expected a value here; quote values that contain brackets, colons or commas, such as an IPv6 address"},
	{"found unexpected end of stream", "missing closing quote"},
	{"cannot start any token", "a value cannot begin with this character; quote the value"},
	{"unknown escape character", `unknown escape sequence inside "…"; use '…'`},
	{"control characters", "the file contains control characters"},
	{"UTF-8", "the file is not UTF-8 text"},
	{"alphabetic or numeric character", "the value begins with an unquoted * or &; quote it, and check earlier lines for a missing closing quote"},
	{"unknown anchor", "an alias (*name) has no anchor (&name)"},
	{"invalid map key", "a field name cannot be a mapping or a list"},
	{"exceeded max depth", "nested too deeply"},
	{"value contains itself", "an alias refers to itself"},
}

// ExplainYAMLError returns the cause of a YAML parser error, or "" if it is unknown.
// The parser's own message may quote the file.
func ExplainYAMLError(text string) string {
	for _, e := range yamlErrorCauses {
		if strings.Contains(text, e.text) {
			return e.cause
		}
	}
	return ""
}
