// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package controller

import (
	"context"
	"fmt"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/pullsecret"
	"github.com/regcred/regcred/plugin"
)

// tokenSeconds is the lifetime of a token. A provider needs it only during its run.
const tokenSeconds = 3600

// accountClient gets tokens for a service account. They are bound to the account's Secret: a token is
// valid only as long as the Secret exists.
type accountClient struct {
	*reconciler
	account pullsecret.Account

	mu     sync.Mutex
	tokens map[string]plugin.Secret // by audience; a client is used for one round
}

func (r *reconciler) accountClient(a pullsecret.Account) regcred.ServiceAccountClient {
	return &accountClient{reconciler: r, account: a, tokens: map[string]plugin.Secret{}}
}

// GetServiceAccount implements [regcred.ServiceAccountClient].
func (c *accountClient) GetServiceAccount(ctx context.Context, namespace, name string) (*regcred.ServiceAccount, error) {
	o, err := c.cached(ctx, metadataOf(accountKind), name)
	if err != nil {
		return nil, err
	}
	return &regcred.ServiceAccount{Namespace: namespace, Name: name, UID: string(o.UID), Annotations: o.Annotations}, nil
}

// cached reads an object of the account's namespace from the cache of the account's Secret.
func (c *accountClient) cached(ctx context.Context, o *metav1.PartialObjectMetadata, name string) (*metav1.PartialObjectMetadata, error) {
	byName, ok := c.secrets[c.currentPlan().File.AccountSecret(c.account.Name)]
	if !ok {
		return nil, fmt.Errorf("service account %s is not configured", c.account.Name)
	}
	return o, byName.Get(ctx, types.NamespacedName{Namespace: c.account.Namespace, Name: name}, o)
}

// RequestToken implements [regcred.ServiceAccountClient].
func (c *accountClient) RequestToken(ctx context.Context, req regcred.TokenRequest) (plugin.Secret, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if token, ok := c.tokens[req.Audience]; ok {
		return token, nil
	}
	secret, err := c.cached(ctx, metadataOf(secretKind), c.currentPlan().File.AccountSecret(c.account.Name))
	if err != nil {
		return plugin.Secret{}, err
	}
	seconds := int64(tokenSeconds)
	tr := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{req.Audience}, ExpirationSeconds: &seconds,
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: secret.Name, UID: secret.UID},
	}}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.ServiceAccount}}
	if err := c.client.SubResource("token").Create(ctx, sa, tr); err != nil {
		return plugin.Secret{}, err
	}
	c.tokens[req.Audience] = plugin.NewSecret(tr.Status.Token)
	return c.tokens[req.Audience], nil
}
