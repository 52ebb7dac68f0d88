// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package protocol defines the kinds, versions and fields of the exec protocol. Package
// plugin encodes and decodes the messages.
package protocol

import "time"

// API group and versions, as in package plugin.
const (
	Group            = "credentialprovider.kubelet.k8s.io"
	VersionV1        = Group + "/v1"
	VersionV1Beta1   = Group + "/v1beta1"
	VersionV1Alpha1  = Group + "/v1alpha1"
	VersionOutOfTree = "v1alpha1"
)

// Message kinds. Requests of the out-of-tree proposal have no kind.
const (
	KindRequest           = "CredentialProviderRequest"
	KindResponse          = "CredentialProviderResponse"
	KindOutOfTreeRequest  = "RegistryCredentialPluginRequest"
	KindOutOfTreeResponse = "RegistryCredentialPluginResponse"
)

// KubeletTimeout is how long a kubelet lets a plugin run
// (pkg/credentialprovider/plugin/plugin.go).
const KubeletTimeout = time.Minute

// ServeTimeout is the default time limit of plugin.Serve. It is less than [KubeletTimeout], so
// that the plugin can report the timeout.
const ServeTimeout = 50 * time.Second

// IsValidCacheKeyType reports whether a kubelet accepts a cacheKeyType in a
// response.
func IsValidCacheKeyType(t string) bool { return t == "Image" || t == "Registry" || t == "Global" }

// KindAuthConfig identifies the entries of a response's auth map in [Fields]. It is not
// a message kind.
const KindAuthConfig = "AuthConfig"

// Values of [Field.Type].
const (
	TypeString      = "string"
	TypeTime        = "time"     // RFC 3339 string with a time zone
	TypeDuration    = "duration" // string in the format of time.ParseDuration
	TypeAnnotations = "map[string]string"
	TypeAuth        = "map[string]AuthConfig"
)

// Field describes a field of a kind in one version.
type Field struct {
	Name      string // in JSON
	Type      string // one of the Type constants
	OmitEmpty bool   // omitted when empty; all other fields are always written
	GoField   string // field name in plugin.Request, Response or AuthConfig; "" for kind
}

// Fields returns the fields of [KindRequest], [KindResponse] or [KindAuthConfig] in a
// version, in encoding order. It returns nil for any other kind or version. Names and
// types are from k8s.io/kubelet/pkg/apis/credentialprovider and the out-of-tree
// proposal.
func Fields(kind, apiVersion string) []Field {
	if !IsSupported(apiVersion) {
		return nil
	}
	typeMeta := []Field{
		{"kind", TypeString, true, ""},
		{"apiVersion", TypeString, true, "APIVersion"},
	}
	if apiVersion == VersionOutOfTree {
		return outOfTreeFields(kind, typeMeta)
	}
	switch kind {
	case KindRequest:
		fields := append(typeMeta, Field{"image", TypeString, false, "Image"})
		if !HasServiceAccount(apiVersion) {
			return fields
		}
		return append(fields,
			Field{"serviceAccountToken", TypeString, true, "ServiceAccountToken"},
			Field{"serviceAccountAnnotations", TypeAnnotations, true, "ServiceAccountAnnotations"})
	case KindResponse:
		return append(typeMeta,
			Field{"cacheKeyType", TypeString, false, "CacheKeyType"},
			Field{"cacheDuration", TypeDuration, true, "CacheDuration"},
			Field{"auth", TypeAuth, true, "Auth"})
	case KindAuthConfig:
		return []Field{
			{"username", TypeString, false, "Username"},
			{"password", TypeString, false, "Password"},
		}
	}
	return nil
}

// outOfTreeFields returns the fields of the out-of-tree proposal, whose
// response is a single credential.
func outOfTreeFields(kind string, typeMeta []Field) []Field {
	switch kind {
	case KindRequest:
		return []Field{{"image", TypeString, false, "Image"}}
	case KindResponse:
		return append(typeMeta,
			Field{"expirationTimestamp", TypeTime, true, "CacheDuration"},
			Field{"username", TypeString, false, "Auth"},
			Field{"password", TypeString, false, "Auth"})
	}
	return nil
}

// KindForVersion returns the name of [KindRequest] or [KindResponse] in a version.
func KindForVersion(apiVersion, kind string) string {
	switch {
	case apiVersion != VersionOutOfTree:
		return kind
	case kind == KindRequest:
		return KindOutOfTreeRequest
	}
	return KindOutOfTreeResponse
}

// IsSupported reports whether apiVersion is a version of the protocol or of the
// out-of-tree proposal.
func IsSupported(apiVersion string) bool {
	return IsInKubelet(apiVersion) || apiVersion == VersionOutOfTree
}

// IsInKubelet reports whether the kubelet supports a version.
func IsInKubelet(apiVersion string) bool {
	return apiVersion == VersionV1 || apiVersion == VersionV1Beta1 || apiVersion == VersionV1Alpha1
}

// HasServiceAccount reports whether requests of a version have the fields added by
// KEP-4412.
func HasServiceAccount(apiVersion string) bool { return apiVersion == VersionV1 }
