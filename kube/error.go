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

// Error says what the API server was asked, and why it did not do it. It holds
// no secret: of an answer it has the reason and message of its Status alone.
type Error struct {
	Verb            string // as in permissions: get, list, create, patch
	Resource        string // as in permissions: "serviceaccounts/token"
	Namespace, Name string // "" if it is about no single object
	Host            string // the API server's address

	Code    int    // the HTTP status; 0 if there was no answer, or none that is of use
	Reason  string // that of the Status, e.g. "Forbidden"; "" if there was none
	Message string // the API server's own words

	// RetryAfter is for how long the API server asks to wait; it was longer
	// than the time that was left.
	RetryAfter time.Duration

	Err error // why there was no answer; nil if there was

	hint string
}

// Error names the call, the host, what it said, and what permission is missing.
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

// Unwrap returns the cause of there being no answer.
func (e *Error) Unwrap() error { return e.Err }

// Unanswered reports whether the API server said neither yes nor no: there is
// no connection, it took too long, it is overloaded (429) or broken (5xx), or
// something else answered in its place.
func (e *Error) Unanswered() bool {
	return e.Err != nil || e.Code == http.StatusTooManyRequests || e.Code == http.StatusRequestTimeout || e.Code >= 500
}

// unanswered reports whether err is an Error of that kind.
func unanswered(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Unanswered()
}

// selfReviews are how one asks who one is.
const selfReviews = "selfsubjectreviews"

// hint is what the API server's words leave to be guessed.
func (q *call) hint(e *Error, who string) string {
	switch e.Code {
	case http.StatusUnauthorized:
		return "the API server rejects the client's credentials (" + who + ")"
	case http.StatusForbidden:
		return q.forbidden(e.Message)
	case http.StatusNotFound:
		if q.resource == selfReviews {
			return "the API server is older than Kubernetes 1.28"
		}
	}
	if e.Code >= 300 && e.Code < 400 {
		return "the server sent a redirect, which an API server never does: check its address"
	}
	return ""
}

// forbidden says what is missing, in words of RBAC. What NodeRestriction and
// the Node authorizer refuse, their messages tell: see
// plugin/pkg/admission/noderestriction and plugin/pkg/auth/authorizer/node.
func (q *call) forbidden(message string) string {
	says := func(part string) bool { return strings.Contains(message, part) }
	switch {
	case says("not authorized to request tokens for "): // "this audience", or its name from 1.37 on
		return missing(audienceVerb, q.audience, q.namespace)
	case says("bound to a pod scheduled on a different node"):
		return "the pod is not on this node, and a node can request tokens only for its own pods"
	case says("token not bound to a pod"), says("pod binding without a uid"):
		return "a node can request only tokens that are bound to one of its pods, by name and UID"
	case says("no relationship found between node"):
		return "a node can read only objects used by its pods, and the API server found no pod on this node that uses this object"
	case says(" cannot " + q.verb + " resource "): // of an authorizer; admission webhooks have other reasons
		return missing(q.verb, q.resource, q.namespace)
	}
	return ""
}

// audienceVerb lets a node request tokens for an audience that no volume of
// the pod asks for; the resource is the audience (KEP-4412).
const audienceVerb = "request-serviceaccounts-token-audience"

// missing names a permission.
func missing(verb, resource, namespace string) string {
	where := "in all namespaces"
	if namespace != "" {
		where = fmt.Sprintf("in namespace %q", namespace)
	}
	return fmt.Sprintf("the client needs the verb %q on the resource %q %s", verb, resource, where)
}
