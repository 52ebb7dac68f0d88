// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testkube

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// AudienceVerb is the RBAC verb that lets a node request tokens for an audience that none
// of the pod's volumes uses. The RBAC resource is the audience.
const AudienceVerb = "request-serviceaccounts-token-audience"

// permission allows a user to use a verb on a resource in all namespaces.
type permission struct{ user, verb, resource string }

// Grant allows a user to use a verb on a resource in all namespaces, such as "get" on
// "pods" or "create" on "serviceaccounts/token". For [AudienceVerb], the resource is an
// audience. "*" means every verb or resource.
func (s *Server) Grant(user, verb, resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grants = append(s.grants, permission{user, verb, resource})
}

// Revoke removes a permission added by Grant.
func (s *Server) Revoke(user, verb, resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grants = slices.DeleteFunc(s.grants, func(g permission) bool { return g == permission{user, verb, resource} })
}

// authorizationError returns "" if a request is allowed, and otherwise the error message that a real
// API server sends.
func (s *Server) authorizationError(req Request) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ok, why := s.checkAllowed(req)
	if ok {
		return ""
	}
	scope := "at the cluster scope"
	if req.Namespace != "" {
		scope = fmt.Sprintf("in the namespace %q", req.Namespace)
	}
	text := fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", req.User, req.Verb, req.Resource, req.Group, scope)
	if why != "" {
		text += ": " + why
	}
	return text
}

// checkAllowed reports whether a user may send a request, and a reason if an authorizer gives
// one. s.mu must be held.
func (s *Server) checkAllowed(req Request) (ok bool, why string) {
	if req.User == Admin || strings.HasPrefix(req.Resource, "selfsubject") {
		return true, ""
	}
	for _, g := range s.grants {
		if g.user == req.User && (g.verb == "*" || g.verb == req.Verb) && (g.resource == "*" || g.resource == req.Resource) {
			return true, ""
		}
	}
	if node, ok := nodeNameOfUser(req.User); ok {
		return s.nodeAllowed(node, req)
	}
	return false, ""
}

func nodeNameOfUser(user string) (string, bool) { return strings.CutPrefix(user, "system:node:") }

// nodeAllowed reports whether a node may send a request: for its own pods, and for objects
// that pods use. Unlike the real Node authorizer, it does not check that one of the node's
// own pods uses the object.
func (s *Server) nodeAllowed(node string, req Request) (ok bool, why string) {
	switch req.Verb + " " + req.Resource {
	case "get pods":
		if pod := s.getPod(req.Namespace, req.Name); pod == nil || pod.Spec.NodeName != node {
			return false, fmt.Sprintf("no relationship found between node '%s' and this object", node)
		}
		return true, ""
	case "get secrets", "get serviceaccounts", "create serviceaccounts/token":
		return true, ""
	case "list serviceaccounts":
		return false, "can only create tokens for individual service accounts"
	}
	return false, ""
}

func (s *Server) serveAccessReview(w http.ResponseWriter, r *http.Request, req Request) {
	var review authorizationv1.SelfSubjectAccessReview
	if !readJSON(w, r, &review) {
		return
	}
	review.TypeMeta = typeMeta("authorization.k8s.io/v1", "SelfSubjectAccessReview")
	if a := review.Spec.ResourceAttributes; a != nil {
		asked := Request{User: req.User, Verb: a.Verb, Resource: a.Resource, Namespace: a.Namespace, Name: a.Name}
		if a.Subresource != "" {
			asked.Resource += "/" + a.Subresource
		}
		s.mu.Lock()
		review.Status.Allowed, review.Status.Reason = s.checkAllowed(asked)
		s.mu.Unlock()
	}
	writeJSON(w, http.StatusCreated, review)
}

func serveSelfReview(w http.ResponseWriter, r *http.Request, req Request) {
	var review authenticationv1.SelfSubjectReview
	if !readJSON(w, r, &review) {
		return
	}
	review.TypeMeta = typeMeta("authentication.k8s.io/v1", "SelfSubjectReview")
	user := &review.Status.UserInfo
	user.Username, user.Groups = req.User, []string{"system:authenticated"}
	switch _, isNode := nodeNameOfUser(req.User); {
	case isNode:
		user.Groups = append([]string{"system:nodes"}, user.Groups...)
	case req.User == Admin:
		user.Groups = append([]string{"system:masters"}, user.Groups...)
	}
	writeJSON(w, http.StatusCreated, review)
}
