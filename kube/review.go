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

// Access is one thing that the client's identity may or may not do.
type Access struct {
	Verb, Resource, Subresource string
	Namespace, Name             string // "" means all
}

// Allowed asks the API server whether the client's identity has access
// (SelfSubjectAccessReview), and why or why not as far as it says. What
// admission plugins refuse, NodeRestriction among them, it does not know of.
func (c *Client) Allowed(ctx context.Context, a Access) (allowed bool, reason string, err error) {
	const resource = "selfsubjectaccessreviews"
	review := authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: a.Verb, Resource: a.Resource, Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name,
		}},
	}
	q := &call{
		verb: "create", resource: resource,
		kind: review.Kind, path: []string{"apis", "authorization.k8s.io", "v1", resource}, body: &review,
	}
	var answer authorizationv1.SelfSubjectAccessReview
	if err := c.do(ctx, q, &answer); err != nil {
		return false, "", err
	}
	return answer.Status.Allowed, apiserver.Clean(cmp.Or(answer.Status.Reason, answer.Status.EvaluationError)), nil
}

// Identity is who the API server takes the client for (SelfSubjectReview).
type Identity struct {
	Username string
	Groups   []string
}

// WhoAmI asks the API server who it takes the client for. It needs Kubernetes
// 1.28.
func (c *Client) WhoAmI(ctx context.Context) (Identity, error) {
	review := authenticationv1.SelfSubjectReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"},
	}
	q := &call{
		verb: "create", resource: selfReviews,
		kind: review.Kind, path: []string{"apis", "authentication.k8s.io", "v1", selfReviews}, body: &review,
	}
	var answer authenticationv1.SelfSubjectReview
	if err := c.do(ctx, q, &answer); err != nil {
		return Identity{}, err
	}
	return Identity{answer.Status.UserInfo.Username, answer.Status.UserInfo.Groups}, nil
}
