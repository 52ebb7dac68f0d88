// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Error is a failed API request. It contains no secrets, because it includes only the
// reason and message of the response's Status.
type Error struct {
	Verb            string // RBAC verb: get, list, create, patch
	Resource        string // RBAC resource, such as "serviceaccounts/token"
	Namespace, Name string // "" if the request is not for a single object
	Host            string // the API server's address

	Code    int    // HTTP status; 0 if there was no usable response
	Reason  string // the Status's reason, such as "Forbidden"
	Message string // of the Status

	// RetryAfter is the delay that the server requested, if it was longer than the time
	// left for the request.
	RetryAfter time.Duration

	Err error // why there was no usable response; nil if there was one

	hint string
}

// Error describes the request, the host, the cause and any missing permission.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Verb + " " + e.Resource)
	switch {
	case e.Name != "":
		b.WriteString(" " + e.Namespace + "/" + e.Name)
	case e.Namespace != "":
		b.WriteString(" in " + e.Namespace)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %s: %v", e.Host, e.Err)
		return b.String()
	}
	fmt.Fprintf(&b, ": %s returned %d %s", e.Host, e.Code, http.StatusText(e.Code))
	for _, part := range []string{e.Message, e.hint} {
		if part != "" {
			b.WriteString(": " + part)
		}
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, ": retry after %v", e.RetryAfter)
	}
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// IsUnavailable reports whether the API server neither granted nor denied the request.
// This includes connection failures, timeouts, overload (429), server errors (5xx), and
// responses that are not from an API server.
func (e *Error) IsUnavailable() bool {
	return e.Err != nil || e.Code == http.StatusTooManyRequests || e.Code == http.StatusRequestTimeout || e.Code >= 500
}

// isUnavailable reports whether err is an [*Error] for which IsUnavailable returns true.
func isUnavailable(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.IsUnavailable()
}

const selfSubjectReviews = "selfsubjectreviews"

// responseHint explains a response whose message does not state the cause, or returns "".
func (q *apiCall) responseHint(e *Error, who string) string {
	switch e.Code {
	case http.StatusUnauthorized:
		return "the API server rejects the client's credentials (" + who + ")"
	case http.StatusForbidden:
		return q.forbiddenHint(e.Message)
	case http.StatusNotFound:
		if q.Resource == selfSubjectReviews {
			return "the API server is older than Kubernetes 1.28"
		}
	}
	if e.Code >= 300 && e.Code < 400 {
		return "the server sent a redirect, which an API server never does: check its address"
	}
	return ""
}

// forbiddenHint returns the missing permission, or the rule of NodeRestriction or the Node
// authorizer that denied the request (plugin/pkg/admission/noderestriction,
// plugin/pkg/auth/authorizer/node).
func (q *apiCall) forbiddenHint(message string) string {
	contains := func(part string) bool { return strings.Contains(message, part) }
	switch {
	case contains("not authorized to request tokens for "): // then "this audience" or, since 1.37, the audience's name
		return missingPermission(audienceVerb, q.audience, q.Namespace)
	case contains("bound to a pod scheduled on a different node"):
		return "the pod is not on this node, and a node can request tokens only for its own pods"
	case contains("token not bound to a pod"), contains("pod binding without a uid"):
		return "a node can request only tokens that are bound to one of its pods, by name and UID"
	case contains("no relationship found between node"):
		return "a node can read only objects used by its pods, and the API server found no pod on this node that uses this object"
	case contains(" cannot " + q.Verb + " resource "): // from an authorizer rather than an admission webhook
		return missingPermission(q.Verb, q.Resource, q.Namespace)
	}
	return ""
}

// audienceVerb is the RBAC verb that lets a node request tokens for an audience that none
// of the pod's volumes uses. The RBAC resource is the audience (KEP-4412).
const audienceVerb = "request-serviceaccounts-token-audience"

// missingPermission describes a missing permission.
func missingPermission(verb, resource, namespace string) string {
	where := "in all namespaces"
	if namespace != "" {
		where = fmt.Sprintf("in namespace %q", namespace)
	}
	return fmt.Sprintf("the client needs the verb %q on the resource %q %s", verb, resource, where)
}
