// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testkube

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServeHTTP handles a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Audit-Id", string(newUID()))
	w.Header().Set("Cache-Control", "no-cache, private")
	req, ok := parseRoute(r)
	req.UserAgent = r.UserAgent()
	req.User = s.authenticatedUser(r)
	fault := s.logRequest(&req)
	if fault != nil {
		if s.writeFault(w, r, req, fault) {
			return
		}
		w = fault.wrapWriter(w)
	}
	switch {
	case req.User == "":
		writeStatus(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized", nil)
	case !ok:
		writeStatus(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource", &metav1.StatusDetails{})
	default:
		s.serve(w, r, req)
	}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, req Request) {
	if denied := s.authorize(req); denied != "" {
		writeForbidden(w, req, denied)
		return
	}
	switch req.Resource {
	case "serviceaccounts/token":
		s.serveToken(w, r, req)
	case "selfsubjectaccessreviews":
		s.serveAccessReview(w, r, req)
	case "selfsubjectreviews":
		serveSelfReview(w, r, req)
	case "pods/log":
		s.serveLog(w, r.URL.Query(), req)
	default:
		s.serveObjects(w, r, req)
	}
}

func (s *Server) serveObjects(w http.ResponseWriter, r *http.Request, req Request) {
	switch req.Verb {
	case "list":
		s.serveList(w, r.URL.Query(), req)
	case "patch":
		s.servePatch(w, r, req)
	default:
		s.serveGet(w, req)
	}
}

// parseRoute parses the path of a request. ok is false if there is no such endpoint.
func parseRoute(r *http.Request) (req Request, ok bool) {
	parts := strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	for i, p := range parts {
		parts[i], _ = url.PathUnescape(p)
	}
	get, post := r.Method == http.MethodGet, r.Method == http.MethodPost
	switch {
	case get && len(parts) == 6 && slices.Equal(parts[:3], []string{"api", "v1", "namespaces"}):
		req = Request{Verb: "get", Resource: parts[4], Namespace: parts[3], Name: parts[5]}
		return req, slices.Contains([]string{"serviceaccounts", "pods", "secrets"}, req.Resource)
	case post && len(parts) == 7 && slices.Equal(parts[:3], []string{"api", "v1", "namespaces"}) && parts[4] == "serviceaccounts" && parts[6] == "token":
		return Request{Verb: "create", Resource: "serviceaccounts/token", Namespace: parts[3], Name: parts[5]}, true
	case post && slices.Equal(parts, []string{"apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"}),
		post && slices.Equal(parts, []string{"apis", "authentication.k8s.io", "v1", "selfsubjectreviews"}):
		return Request{Verb: "create", Resource: parts[3]}, true
	}
	if req, ok := routeAdditional(r.Method, parts); ok {
		return req, true
	}
	return Request{Verb: strings.ToLower(r.Method), Resource: r.URL.Path}, false
}

// authenticatedUser returns the user for a request's bearer token, or "" if the token is unknown.
func (s *Server) authenticatedUser(r *http.Request) string {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	name, ok := strings.CutPrefix(token, s.Token(""))
	if !ok {
		return ""
	}
	name, _ = url.QueryUnescape(name)
	return name
}

func (s *Server) serveGet(w http.ResponseWriter, req Request) {
	switch o := s.getObject(objectKey{req.Resource, req.Namespace, req.Name}).(type) {
	case nil:
		writeNotFound(w, req.Resource, req.Name)
	case *corev1.ServiceAccount:
		account := *o
		account.TypeMeta = typeMeta("v1", "ServiceAccount")
		writeJSON(w, http.StatusOK, account)
	default:
		writeJSON(w, http.StatusOK, o)
	}
}
