// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube

import "net/url"

// call is one question to the API server. The words are those of its
// permissions (RBAC), and of errors.
type call struct {
	verb            string // get, list, create
	resource        string // in the plural, with the subresource
	namespace, name string
	audience        string // of a token

	kind  string   // that the answer must have
	path  []string // below the base address
	query url.Values
	body  any   // sent as JSON
	most  int64 // bytes of the answer; 0 is the most of an object
}

// object is the call that reads one object of the core group.
func object(kind, resource, namespace, name string) *call {
	return &call{
		verb: "get", resource: resource, namespace: namespace, name: name,
		kind: kind, path: []string{"api", "v1", "namespaces", namespace, resource, name},
	}
}
