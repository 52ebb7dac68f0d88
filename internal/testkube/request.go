// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testkube

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/regcred/regcred/plugin"
)

const maxBodySize = 3 << 20 // request size in bytes, as in the real API server

func writeError(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.ErrStatus
	status.TypeMeta = typeMeta("v1", "Status")
	writeJSON(w, int(status.Code), status)
}

func notFound(resource, name string) *apierrors.StatusError {
	return apierrors.NewNotFound(schema.GroupResource{Resource: resource}, name)
}

// newForbiddenError returns a 403 error in the format of a real admission plugin or authorizer.
func newForbiddenError(req Request, why string) *apierrors.StatusError {
	resource, _, _ := strings.Cut(req.Resource, "/")
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, req.Name, errors.New(why))
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // fails only if the client has disconnected
}

// readJSON decodes a request's body. If decoding fails, readJSON sends the response.
func readJSON(w http.ResponseWriter, r *http.Request, v any) bool {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBodySize)).Decode(v)
	if err != nil {
		writeError(w, apierrors.NewBadRequest("the request does not parse"))
	}
	return err == nil
}

// Request is a client's request.
type Request struct {
	Verb      string // get, list, create, patch
	Group     string // API group; "" is the core group
	Resource  string // plural, with any subresource, as in "serviceaccounts/token"
	Namespace string
	Name      string
	User      string // "" if the bearer token is unknown
	UserAgent string

	// For a TokenRequest.
	AccountUID          string
	Audiences           []string
	BoundKind           string // "v1/Pod"; "" if the token is not bound
	BoundName, BoundUID string
	ExpirationSeconds   *int64
	Token               plugin.Secret // the issued token; empty after an error

	logIndex int // index in Server.requestLog
}
