// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube

import (
	"cmp"
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/regcred/regcred/internal/apiserver"
)

// Access is a permission to check with [Client.Allowed].
type Access struct {
	Verb, Resource, Subresource string
	Namespace, Name             string // "" means all
}

// Allowed reports whether the client has a permission (SelfSubjectAccessReview). It
// also returns the API server's reason, if there is one. It does not consider admission
// plugins such as NodeRestriction.
func (c *Client) Allowed(ctx context.Context, a Access) (allowed bool, reason string, err error) {
	review := authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: a.Verb, Resource: a.Resource, Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name,
		}},
	}
	q := &apiCall{
		Call: apiserver.Call{Verb: "create", Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews", Body: &review},
		kind: review.Kind,
	}
	var response authorizationv1.SelfSubjectAccessReview
	if err := c.sendCall(ctx, q, &response); err != nil {
		return false, "", err
	}
	return response.Status.Allowed, apiserver.CleanMessage(cmp.Or(response.Status.Reason, response.Status.EvaluationError)), nil
}

// User is the client's identity as authenticated by the API server.
type User struct {
	Username string
	Groups   []string
}

// WhoAmI returns the client's identity (SelfSubjectReview). It needs Kubernetes 1.28.
func (c *Client) WhoAmI(ctx context.Context) (User, error) {
	review := authenticationv1.SelfSubjectReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"},
	}
	q := &apiCall{
		Call: apiserver.Call{Verb: "create", Group: "authentication.k8s.io", Resource: selfSubjectReviews, Body: &review},
		kind: review.Kind,
	}
	var response authenticationv1.SelfSubjectReview
	if err := c.sendCall(ctx, q, &response); err != nil {
		return User{}, err
	}
	return User{response.Status.UserInfo.Username, response.Status.UserInfo.Groups}, nil
}
