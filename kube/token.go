// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/apiserver"
	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/plugin"
)

// When the kubelet refreshes a token (pkg/kubelet/token/token_manager.go).
const (
	maxTokenUse     = 24 * time.Hour // maximum age before a token is refreshed
	refreshFraction = 5              // refresh in the last fifth of a token's lifetime
	refreshJitter   = 10 * time.Second

	// refreshRetryInterval is the minimum time between attempts to refresh a token that is
	// still valid. (The kubelet tries at each lookup.)
	refreshRetryInterval = 10 * time.Second
)

const maxTokenResponse = 1 << 20 // bytes

// token is a cached token.
type token struct {
	secret  plugin.Secret
	expires time.Time
	refresh time.Time // when to request a new one
}

// RequestToken returns a token for a service account, bound to a pod if req.PodName is set.
//
//   - Caching follows the kubelet (pkg/kubelet/token/token_manager.go). A token is used for
//     identical requests until 80 % of its life or 24 hours have passed. If no new token is
//     available, it is used until it expires.
//   - The API server rejects (409) a request if the service account or pod has a new UID.
//     Before Kubernetes 1.34 it does not check the service account's UID.
//   - A token for another audience is an error.
//   - Errors have type [*Error] and do not contain a token.
func (c *Client) RequestToken(ctx context.Context, req regcred.TokenRequest) (plugin.Secret, error) {
	if t, ok := c.liveToken(req, time.Now()); ok {
		return t.secret, nil
	}
	q := newTokenCall(req)
	if req.Audience == "" {
		return plugin.Secret{}, c.noResponseError(q, errors.New("the token was not requested: without an audience, it would be valid for the API server itself"))
	}
	return doShared(ctx, c, q, fmt.Sprintf("token %q", req), func(ctx context.Context) (plugin.Secret, error) {
		return c.refreshToken(ctx, q, req)
	})
}

// liveToken returns a cached token that does not need to be refreshed yet.
func (c *Client) liveToken(req regcred.TokenRequest, now time.Time) (t *token, ok bool) {
	t, ok = c.tokens.getUnexpired(req, now)
	return t, ok && now.Before(t.refresh)
}

// refreshToken requests a new token. If that fails, it returns the cached token if there is
// one.
func (c *Client) refreshToken(ctx context.Context, q *apiCall, req regcred.TokenRequest) (plugin.Secret, error) {
	if t, ok := c.liveToken(req, time.Now()); ok {
		return t.secret, nil // another call refreshed it in the meantime
	}
	fresh, err := c.fetchToken(ctx, q, req)
	now := time.Now()
	if err == nil {
		c.tokens.put(req, fresh, fresh.expires, now)
		return fresh.secret, nil
	}
	if !isUnavailable(err) {
		// The service account may have changed, so read it at the next lookup.
		c.accounts.deleteKey(accountKey{req.Namespace, req.ServiceAccount})
	}
	old, ok := c.tokens.getUnexpired(req, now)
	if !ok {
		return plugin.Secret{}, err
	}
	c.tokens.put(req, &token{old.secret, old.expires, now.Add(refreshRetryInterval)}, old.expires, now)
	c.opts.Logger.Debug("no new token; the old one is still valid", "namespace", req.Namespace, "serviceAccount", req.ServiceAccount,
		"audience", req.Audience, "pod", req.PodName, "expires", old.expires, "err", err)
	return old.secret, nil
}

// TryToken uses a dry run to check whether [Client.RequestToken] would succeed.
// Permissions, NodeRestriction and webhooks apply. It discards the token, which the API
// server signs even in a dry run.
func (c *Client) TryToken(ctx context.Context, req regcred.TokenRequest) error {
	q := newTokenCall(req)
	q.Query = url.Values{"dryRun": {metav1.DryRunAll}}
	_, err := c.fetchToken(ctx, q, req)
	return err
}

func newTokenCall(req regcred.TokenRequest) *apiCall {
	return &apiCall{
		Call: apiserver.Call{Verb: "create", Resource: "serviceaccounts/token", Namespace: req.Namespace, Name: req.ServiceAccount, MaxSize: maxTokenResponse},
		kind: "TokenRequest", audience: req.Audience,
	}
}

func (c *Client) fetchToken(ctx context.Context, q *apiCall, req regcred.TokenRequest) (*token, error) {
	// kubelet: sets no expirationSeconds, so the API server's default applies.
	request := authenticationv1.TokenRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"},
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(req.ServiceAccountUID)}, // a precondition
		Spec:       authenticationv1.TokenRequestSpec{Audiences: []string{req.Audience}},
	}
	if req.PodName != "" {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: req.PodName, UID: types.UID(req.PodUID),
		}
	}
	q.Body = &request
	sent := time.Now()
	var response authenticationv1.TokenRequest
	if err := c.sendCall(ctx, q, &response); err != nil {
		return nil, err
	}
	if err := checkToken(&response, req.Audience); err != nil {
		return nil, c.noResponseError(q, err)
	}
	return newToken(&response, sent), nil
}

// checkToken rejects an empty token and a token for other audiences, because an
// admission webhook or proxy may have changed the request.
func checkToken(response *authenticationv1.TokenRequest, audience string) error {
	if response.Status.Token == "" {
		return errors.New("the response has an empty token")
	}
	want := []string{audience}
	if !slices.Equal(response.Spec.Audiences, want) {
		return fmt.Errorf("the response has a token for the audiences %.200q, not for %q", response.Spec.Audiences, audience)
	}
	if claims, err := jwt.Parse(response.Status.Token); err == nil && !slices.Equal(claims.Audience, want) {
		return fmt.Errorf("the token is for the audiences %.200q, not for %q", claims.Audience, audience)
	}
	return nil
}

// newToken computes when to refresh a token. It counts back from the expiry, which the API
// server's clock determines. The resulting times have a monotonic clock reading, so changes
// to the node's clock do not affect them.
func newToken(response *authenticationv1.TokenRequest, sent time.Time) *token {
	expires := sent.Add(response.Status.ExpirationTimestamp.Sub(sent))
	life := expires.Sub(sent)
	if s := response.Spec.ExpirationSeconds; s != nil {
		life = time.Duration(*s) * time.Second
	}
	refresh := expires.Add(-life / refreshFraction)
	if most := expires.Add(maxTokenUse - life); most.Before(refresh) {
		refresh = most
	}
	return &token{plugin.NewSecret(response.Status.Token), expires, refresh.Add(-rand.N(refreshJitter))}
}
