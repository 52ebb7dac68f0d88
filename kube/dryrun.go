// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube

import (
	"context"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/regcred/regcred"
)

// TryToken asks for a token as [Client.RequestToken] does, as a dry run: all
// that would refuse a request refuses it, permissions, NodeRestriction and
// webhooks alike. The token is dropped, and none is kept. (An API server signs
// one in any case: it stores none, so a dry run has nothing to leave out.)
func (c *Client) TryToken(ctx context.Context, req regcred.TokenRequest) error {
	q := tokenCall(req)
	q.query = url.Values{"dryRun": {metav1.DryRunAll}}
	_, err := c.mint(ctx, q, req)
	return err
}
