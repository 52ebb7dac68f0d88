// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testkube

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// routes lists the endpoints. If the resource is "", it is part of the path.
var routes = []struct{ pattern, verb, resource string }{
	{"GET /api/v1/namespaces/{namespace}/{resource}/{name}", "get", ""},
	{"GET /api/v1/namespaces/{namespace}/pods/{name}/log", "get", "pods/log"},
	{"GET /api/v1/{resource}", "list", ""},
	{"GET /api/v1/namespaces/{namespace}/{resource}", "list", ""},
	{"GET /apis/{group}/v1/{resource}", "list", ""},
	{"GET /apis/{group}/v1/namespaces/{namespace}/{resource}", "list", ""},
	{"PATCH /api/v1/namespaces/{namespace}/configmaps/{name}", "patch", "configmaps"},
	{"POST /api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", "create", "serviceaccounts/token"},
	{"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "create", "selfsubjectaccessreviews"},
	{"POST /apis/authentication.k8s.io/v1/selfsubjectreviews", "create", "selfsubjectreviews"},
}

// listKinds maps listable resources to their kinds.
var listKinds = map[string]metav1.TypeMeta{
	"pods":       typeMeta("v1", "PodList"),
	"nodes":      typeMeta("v1", "NodeList"),
	"daemonsets": typeMeta("apps/v1", "DaemonSetList"),
}

func (s *Server) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	for _, route := range routes {
		mux.HandleFunc(route.pattern, func(w http.ResponseWriter, r *http.Request) {
			req := Request{
				Verb: route.verb, Group: r.PathValue("group"), Resource: cmp.Or(route.resource, r.PathValue("resource")),
				Namespace: r.PathValue("namespace"), Name: r.PathValue("name"),
			}
			_, canList := listKinds[req.Resource]
			s.handleWithFaults(w, r, req, req.Verb != "list" || canList)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.handleWithFaults(w, r, Request{Verb: strings.ToLower(r.Method), Resource: r.URL.Path}, false)
	})
	return mux
}

// ServeHTTP handles a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// handleWithFaults responds to a request and applies any fault. ok is false if there is no such
// endpoint.
func (s *Server) handleWithFaults(w http.ResponseWriter, r *http.Request, req Request, ok bool) {
	w.Header().Set("Audit-Id", string(newUID()))
	w.Header().Set("Cache-Control", "no-cache, private")
	req.UserAgent = r.UserAgent()
	req.User = s.authenticatedUser(r)
	serve := func(w http.ResponseWriter) { s.serveRequest(w, r, req, ok) }
	switch fault := s.logRequest(&req); {
	case fault == nil:
		serve(w)
	case !s.writeFault(w, r, req, fault):
		fault.respondChanged(w, serve)
	}
}

// serveRequest sends the correct response, without faults. ok is false if there is no such
// endpoint.
func (s *Server) serveRequest(w http.ResponseWriter, r *http.Request, req Request, ok bool) {
	switch {
	case req.User == "":
		writeError(w, apierrors.NewUnauthorized("Unauthorized"))
		return
	case !ok:
		writeError(w, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
			Message: "the server could not find the requested resource",
		}})
		return
	}
	if denied := s.authorizationError(req); denied != "" {
		writeError(w, newForbiddenError(req, denied))
		return
	}
	switch {
	case req.Resource == "serviceaccounts/token":
		s.serveToken(w, r, req)
	case req.Resource == "selfsubjectaccessreviews":
		s.serveAccessReview(w, r, req)
	case req.Resource == "selfsubjectreviews":
		serveSelfReview(w, r, req)
	case req.Resource == "pods/log":
		s.serveLog(w, r.URL.Query(), req)
	case req.Verb == "list":
		s.serveList(w, r.URL.Query(), req)
	case req.Verb == "patch":
		s.servePatch(w, r, req)
	default:
		s.serveGet(w, req)
	}
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
	o := s.getObject(objectKey{req.Resource, req.Namespace, req.Name})
	if o == nil {
		writeError(w, notFound(req.Resource, req.Name))
		return
	}
	writeJSON(w, http.StatusOK, o)
}

// Requests returns the clients' requests in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requestLog)
}

// CountRequests counts requests, including rejected ones. "" matches any verb or resource.
func (s *Server) CountRequests(verb, resource string) int {
	n := 0
	for _, r := range s.Requests() {
		if (verb == "" || verb == r.Verb) && (resource == "" || resource == r.Resource) {
			n++
		}
	}
	return n
}

func (s *Server) logRequest(req *Request) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	req.logIndex = len(s.requestLog)
	s.requestLog = append(s.requestLog, *req)
	return s.faults.Next(func(f Fault) bool { return f.matches(*req) })
}
