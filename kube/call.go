// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube

import "net/url"

// apiCall describes a request to the API server in terms of RBAC permissions.
type apiCall struct {
	verb            string // get, list, create
	resource        string // plural, with any subresource
	namespace, name string
	audience        string // audience of the requested token

	kind    string   // of the response
	path    []string // path elements below the base URL
	query   url.Values
	body    any   // sent as JSON
	maxSize int64 // maximum response size in bytes; 0 means the limit for an object
}

func newGetCall(kind, resource, namespace, name string) *apiCall {
	return &apiCall{
		verb: "get", resource: resource, namespace: namespace, name: name,
		kind: kind, path: []string{"api", "v1", "namespaces", namespace, resource, name},
	}
}

// newReviewCall returns the call that creates a review, which is not stored.
func newReviewCall(group, resource, kind string, body any) *apiCall {
	return &apiCall{verb: "create", resource: resource, kind: kind, path: []string{"apis", group, "v1", resource}, body: body}
}
