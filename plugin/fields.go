// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

// The names of the JSON types that a [Field] can have.
const (
	typeString      = "string"
	typeTime        = "time"     // a string in the form of RFC 3339, with its zone
	typeDuration    = "duration" // a string that time.ParseDuration reads
	typeAnnotations = "map[string]string"
	typeAuth        = "map[string]AuthConfig"
)

// KindAuthConfig is the name under which [Fields] lists the fields of one
// entry of a response's auth map. It is no kind of its own on the wire.
const KindAuthConfig = "AuthConfig"

// Field is one row of the field × version table.
type Field struct {
	Name      string // in JSON
	Type      string // "string", "time" or "duration" (strings too), "map[string]string" or "map[string]AuthConfig"
	OmitEmpty bool   // left out when empty; all other fields are always written
	GoField   string // of [Request], [Response] or [AuthConfig], or what of them it becomes; "" for kind, which the Go type implies
}

// Fields returns the fields that a kind ([KindRequest], [KindResponse] or
// [KindAuthConfig]) has in a version of the protocol, in the order in which
// they are written; nil if there is no such kind or version. The names and
// types are those of k8s.io/kubelet/pkg/apis/credentialprovider and, for
// [OutOfTree], those of its document.
func Fields(kind, apiVersion string) []Field {
	if !supported(apiVersion) {
		return nil
	}
	typeMeta := []Field{
		{"kind", typeString, true, ""},
		{"apiVersion", typeString, true, "APIVersion"},
	}
	if apiVersion == OutOfTree {
		return outOfTreeFields(kind, typeMeta)
	}
	switch kind {
	case KindRequest:
		fields := append(typeMeta, Field{"image", typeString, false, "Image"})
		if !hasServiceAccount(apiVersion) {
			return fields
		}
		return append(fields,
			Field{"serviceAccountToken", typeString, true, "ServiceAccountToken"},
			Field{"serviceAccountAnnotations", typeAnnotations, true, "ServiceAccountAnnotations"})
	case KindResponse:
		return append(typeMeta,
			Field{"cacheKeyType", typeString, false, "CacheKeyType"},
			Field{"cacheDuration", typeDuration, true, "CacheDuration"},
			Field{"auth", typeAuth, true, "Auth"})
	case KindAuthConfig:
		return []Field{
			{"username", typeString, false, "Username"},
			{"password", typeString, false, "Password"},
		}
	}
	return nil
}

// outOfTreeFields are those of the predecessor, whose request says neither
// kind nor version, and whose answer is one credential.
func outOfTreeFields(kind string, typeMeta []Field) []Field {
	switch kind {
	case KindRequest:
		return []Field{{"image", typeString, false, "Image"}}
	case KindResponse:
		return append(typeMeta,
			Field{"expirationTimestamp", typeTime, true, "CacheDuration"},
			Field{"username", typeString, false, "Auth"},
			Field{"password", typeString, false, "Auth"})
	}
	return nil
}

// kindIn is what the documents of a version call a kind.
func kindIn(apiVersion, kind string) string {
	switch {
	case apiVersion != OutOfTree:
		return kind
	case kind == KindRequest:
		return KindOutOfTreeRequest
	}
	return KindOutOfTreeResponse
}

// supported reports whether there is a version of that name.
func supported(apiVersion string) bool { return ofKubelet(apiVersion) || apiVersion == OutOfTree }

// ofKubelet reports whether a kubelet speaks a version.
func ofKubelet(apiVersion string) bool {
	return apiVersion == V1 || apiVersion == V1Beta1 || apiVersion == V1Alpha1
}

// hasServiceAccount reports whether requests of a version carry the fields of
// KEP-4412.
func hasServiceAccount(apiVersion string) bool { return apiVersion == V1 }
