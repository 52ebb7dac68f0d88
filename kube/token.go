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
	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/plugin"
)

// The rules of pkg/kubelet/token/token_manager.go.
const (
	maxTokenUse   = 24 * time.Hour // that a token is used without a new one
	refreshPart   = 5              // the last fifth of a token's life is for getting a new one
	refreshJitter = 10 * time.Second

	// refreshPause is for how long no new token is asked for after that has
	// failed while the old one lives. (A kubelet asks for each lookup.)
	refreshPause = 10 * time.Second
)

const maxTokenAnswer = 1 << 20 // bytes

// token is one that is kept.
type token struct {
	secret  plugin.Secret
	expires time.Time
	refresh time.Time // from when on a new one is asked for
}

// RequestToken returns a token for a service account, bound to the pod if
// req.PodName is set. Tokens are kept by the kubelet's rules
// (pkg/kubelet/token/token_manager.go): for one request in all its parts, UIDs
// included, until 80 % of the token's life or 24 hours are over; if no other
// can be had then, for the rest of its life.
//
// The API server refuses (409) a request whose service account or pod has
// another UID by now; one older than Kubernetes 1.34 does not look at the
// service account's. A token for another audience is an error.
// Its errors are of type [*Error], and hold no token.
func (c *Client) RequestToken(ctx context.Context, req regcred.TokenRequest) (plugin.Secret, error) {
	if t, ok := c.liveToken(req, time.Now()); ok {
		return t.secret, nil
	}
	q := tokenCall(req)
	if req.Audience == "" {
		return plugin.Secret{}, c.fail(q, errors.New("the token was not requested: without an audience, it would be valid for the API server itself"))
	}
	return shared(ctx, c, q, fmt.Sprintf("token %q", req), func(ctx context.Context) (plugin.Secret, error) {
		return c.refreshToken(ctx, q, req)
	})
}

// liveToken returns a kept token that need not be replaced yet.
func (c *Client) liveToken(req regcred.TokenRequest, now time.Time) (t *token, ok bool) {
	t, ok = c.tokens.get(req, now)
	return t, ok && now.Before(t.refresh)
}

// refreshToken asks for a token, and goes on with the old one if it must.
func (c *Client) refreshToken(ctx context.Context, q *call, req regcred.TokenRequest) (plugin.Secret, error) {
	if t, ok := c.liveToken(req, time.Now()); ok {
		return t.secret, nil // somebody else's call came back in the meantime
	}
	fresh, err := c.mint(ctx, q, req)
	now := time.Now()
	if err == nil {
		c.tokens.put(req, fresh, fresh.expires, now)
		return fresh.secret, nil
	}
	if !unanswered(err) {
		// The service account may not be what it was: the next lookup reads it.
		c.accounts.drop(accountKey{req.Namespace, req.ServiceAccount})
	}
	old, ok := c.tokens.get(req, now)
	if !ok {
		return plugin.Secret{}, err
	}
	c.tokens.put(req, &token{old.secret, old.expires, now.Add(refreshPause)}, old.expires, now)
	c.opts.Logger.Debug("no new token; the old one is still valid", "namespace", req.Namespace, "serviceAccount", req.ServiceAccount,
		"audience", req.Audience, "pod", req.PodName, "expires", old.expires, "err", err)
	return old.secret, nil
}

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

func tokenCall(req regcred.TokenRequest) *call {
	return &call{
		verb: "create", resource: "serviceaccounts/token", namespace: req.Namespace, name: req.ServiceAccount, audience: req.Audience,
		kind: "TokenRequest", path: []string{"api", "v1", "namespaces", req.Namespace, "serviceaccounts", req.ServiceAccount, "token"},
		most: maxTokenAnswer,
	}
}

// mint gets a token from the API server.
func (c *Client) mint(ctx context.Context, q *call, req regcred.TokenRequest) (*token, error) {
	// kubelet: no expirationSeconds, so that the API's default counts.
	ask := authenticationv1.TokenRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"},
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(req.ServiceAccountUID)}, // a precondition
		Spec:       authenticationv1.TokenRequestSpec{Audiences: []string{req.Audience}},
	}
	if req.PodName != "" {
		ask.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: req.PodName, UID: types.UID(req.PodUID),
		}
	}
	q.body = &ask
	asked := time.Now()
	var answer authenticationv1.TokenRequest
	if err := c.do(ctx, q, &answer); err != nil {
		return nil, err
	}
	if err := checkToken(&answer, req.Audience); err != nil {
		return nil, c.fail(q, err)
	}
	return newToken(&answer, asked), nil
}

// checkToken refuses a token that is none, or is not for the audience alone:
// what stands between client and API server (an admission webhook, a proxy)
// may have changed the request.
func checkToken(answer *authenticationv1.TokenRequest, audience string) error {
	if answer.Status.Token == "" {
		return errors.New("the response has an empty token")
	}
	want := []string{audience}
	if !slices.Equal(answer.Spec.Audiences, want) {
		return fmt.Errorf("the response has a token for the audiences %.200q, not for %q", answer.Spec.Audiences, audience)
	}
	if claims, err := jwt.Parse(answer.Status.Token); err == nil && !slices.Equal(claims.Audience, want) {
		return fmt.Errorf("the token is for the audiences %.200q, not for %q", claims.Audience, audience)
	}
	return nil
}

// newToken says when to replace a token. Its life is counted back from its
// end, which is by the clock of the API server. What is kept has a reading of
// the monotonic clock, so that setting the node's changes nothing any more.
func newToken(answer *authenticationv1.TokenRequest, asked time.Time) *token {
	expires := asked.Add(answer.Status.ExpirationTimestamp.Sub(asked))
	life := expires.Sub(asked)
	if s := answer.Spec.ExpirationSeconds; s != nil {
		life = time.Duration(*s) * time.Second
	}
	refresh := expires.Add(-life / refreshPart)
	if most := expires.Add(maxTokenUse - life); most.Before(refresh) {
		refresh = most
	}
	return &token{plugin.NewSecret(answer.Status.Token), expires, refresh.Add(-rand.N(refreshJitter))}
}
