// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testkube

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const maxBodySize = 3 << 20 // request size in bytes, as in the real API server

func writeNotFound(w http.ResponseWriter, resource, name string) {
	writeStatus(w, http.StatusNotFound, metav1.StatusReasonNotFound, resource+" "+strconv.Quote(name)+" not found",
		&metav1.StatusDetails{Name: name, Kind: resource})
}

// writeForbidden writes an error message of the real server's admission or authorizer.
func writeForbidden(w http.ResponseWriter, req Request, why string) {
	resource, _, _ := strings.Cut(req.Resource, "/")
	subject := resource
	if req.Name != "" {
		subject += " " + strconv.Quote(req.Name)
	}
	writeStatus(w, http.StatusForbidden, metav1.StatusReasonForbidden, subject+" is forbidden: "+why,
		&metav1.StatusDetails{Name: req.Name, Kind: resource})
}

func writeStatus(w http.ResponseWriter, code int, reason metav1.StatusReason, message string, details *metav1.StatusDetails) {
	writeJSON(w, code, metav1.Status{
		TypeMeta: typeMeta("v1", "Status"), Status: metav1.StatusFailure,
		Code: int32(code), Reason: reason, Message: message, Details: details,
	})
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
		writeStatus(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "the request does not parse", nil)
	}
	return err == nil
}
