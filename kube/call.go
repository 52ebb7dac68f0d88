// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube

import "github.com/regcred/regcred/internal/apiserver"

// apiCall is a request to the API server.
type apiCall struct {
	apiserver.Call
	kind     string // of the response
	audience string // audience of the requested token
}

func newGetCall(kind, resource, namespace, name string) *apiCall {
	return &apiCall{Call: apiserver.Call{Verb: "get", Resource: resource, Namespace: namespace, Name: name}, kind: kind}
}
