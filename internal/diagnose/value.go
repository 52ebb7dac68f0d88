// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package diagnose

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/protocol"
)

const wrongKind = "; the kubelet accepts only a " + protocol.KindResponse

// values are JSON objects that programs print instead of a response. They are
// recognized by their kind, or by fields: one of a list, of which each is several
// names separated by spaces. A name with ! must be absent.
var values = []struct {
	kind   string
	fields []string
	what   string
}{
	{"", []string{"ServerURL", "Username Secret"}, "a response from a docker credential helper (ServerURL, Username, Secret), which uses a different protocol; configure the vendor's kubelet plugin"},
	{"ExecCredential", nil, "an ExecCredential, which kubectl uses to log in to an API server" + wrongKind},
	{protocol.KindRequest, []string{"image !auth"}, "the request itself; the plugin copies its standard input to standard output"},
	{"Secret", nil, "a Kubernetes Secret" + wrongKind},
	{"Status", nil, "a Status, which is a Kubernetes API error" + wrongKind},
	{"CredentialProviderConfig", nil, "a CredentialProviderConfig, which configures the kubelet" + wrongKind},
	{"", []string{"auths"}, "a docker config file (auths); move its entries to auth, with username and password in plain text"},
	{"", []string{"authorizationData"}, "the output of \"aws ecr get-authorization-token\"; decode authorizationToken into username and password"},
	{"", []string{"AccessKeyId", "Credentials"}, "AWS credentials (as printed by a credential_process), not registry credentials"},
	{"", []string{"access_token", "accessToken", "refresh_token", "token !auth"}, "a cloud access token, as returned by a metadata server or CLI; use it in the username and password of an auth entry"},
	{"", []string{"errors", "error", "code message"}, "an error from a server; if the server returns an error, exit with a nonzero code and do not print the error to standard output"},
	{"", []string{"Kind", "APIVersion", "ApiVersion", "CacheKeyType", "apiversion", "Auth"}, "fields in the wrong case; use kind, apiVersion, cacheKeyType, cacheDuration and auth"},
}

// Value names a JSON value that is not a response.
func Value(data []byte) string {
	var value map[string]json.RawMessage
	if json.Unmarshal(data, &value) != nil {
		return ""
	}
	if value == nil {
		return "null, as printed by jq for a missing value"
	}
	var kind string
	json.Unmarshal(value["kind"], &kind)
	if kind == protocol.KindResponse {
		return ""
	}
	for _, v := range values {
		if v.kind != "" && v.kind == kind || hasFields(value, v.fields...) {
			return v.what
		}
	}
	if isLogRecord(value) {
		return "a JSON log line; " + toStderr
	}
	return ""
}

// hasFields reports whether an object has the fields of one of the lists.
func hasFields(value map[string]json.RawMessage, lists ...string) bool {
	return slices.ContainsFunc(lists, func(list string) bool {
		return !slices.ContainsFunc(strings.Fields(list), func(name string) bool {
			name, absent := strings.CutPrefix(name, "!")
			return (value[name] == nil) != absent
		})
	})
}
