// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube

import (
	"fmt"
	"net/url"
)

// maxObject bounds an answer in bytes. An object in etcd has at most 1.5 MiB,
// and a secret's data grow by a third in JSON.
const maxObject = 4 << 20

// call is one question to the API server. The words are those of its
// permissions (RBAC), and of errors.
type call struct {
	verb            string // get, list, watch, create
	resource        string // in the plural, with the subresource
	namespace, name string
	audience        string // of a token

	kind  string   // that the answer must have
	path  []string // below the base address
	query url.Values
	body  any // sent as JSON
	most  int64
}

// object is the call that reads one object of the core group.
func object(kind, resource, namespace, name string) *call {
	return &call{
		verb: "get", resource: resource, namespace: namespace, name: name,
		kind: kind, path: []string{"api", "v1", "namespaces", namespace, resource, name},
	}
}

// check refuses names that would change the path.
func (q *call) check() error {
	for _, s := range q.path {
		if !isPathSegment(s) {
			return fmt.Errorf("%q cannot be a namespace or name", s)
		}
	}
	return nil
}

func isPathSegment(s string) bool {
	if s == "" || s == "." || s == ".." || len(s) > 253 {
		return false
	}
	for _, r := range s {
		if r == '/' || r == '%' {
			return false
		}
	}
	return true
}

func (q *call) limit() int64 {
	if q.most > 0 {
		return q.most
	}
	return maxObject
}
