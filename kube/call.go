// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube

import "net/url"

// call is a request to the API server, in the terms of RBAC permissions.
type call struct {
	verb            string // get, list, create
	resource        string // in the plural, with the subresource
	namespace, name string
	audience        string // of a requested token

	kind  string   // of the response
	path  []string // below the base address
	query url.Values
	body  any   // sent as JSON
	most  int64 // size limit of the response in bytes; 0 means that of an object
}

// object returns the call that reads an object of the core group.
func object(kind, resource, namespace, name string) *call {
	return &call{
		verb: "get", resource: resource, namespace: namespace, name: name,
		kind: kind, path: []string{"api", "v1", "namespaces", namespace, resource, name},
	}
}
