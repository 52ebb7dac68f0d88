// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/regcred/regcred"
)

type accountKey struct{ namespace, name string }

// account is a cached service account.
type account struct {
	regcred.ServiceAccount
	pullSecrets []string
	readAt      time.Time // when the request was sent
	failedAt    time.Time // when the API server was last unavailable
}

// secretNames returns the names of secrets. It omits empty names, which the API allows and
// the kubelet ignores (getPullSecretsForPod in pkg/kubelet/kubelet_pods.go).
func secretNames(refs []corev1.LocalObjectReference) []string {
	var all []string
	for _, ref := range refs {
		if ref.Name != "" {
			all = append(all, ref.Name)
		}
	}
	return all
}

// GetServiceAccount returns a service account. It returns the cached one if it was read
// less than Options.MaxAccountAge ago. While the API server does not respond, it uses
// the cache for up to Options.MaxStale. The result is shared and must not be modified.
// Errors are of type [*Error].
func (c *Client) GetServiceAccount(ctx context.Context, namespace, name string) (*regcred.ServiceAccount, error) {
	a, err := c.getAccount(ctx, accountKey{namespace, name})
	if err != nil {
		return nil, err
	}
	return &a.ServiceAccount, nil
}

// AccountPullSecrets returns the names in a service account's imagePullSecrets, which
// admission copies into pods that have none. It uses the same cache as
// [Client.GetServiceAccount].
func (c *Client) AccountPullSecrets(ctx context.Context, namespace, name string) ([]string, error) {
	a, err := c.getAccount(ctx, accountKey{namespace, name})
	if err != nil {
		return nil, err
	}
	return a.pullSecrets, nil
}

func (c *Client) getAccount(ctx context.Context, key accountKey) (*account, error) {
	now := time.Now()
	a, read := c.cachedAccount(key, now)
	switch {
	case a == nil:
	case now.Sub(read) < c.opts.MaxAccountAge:
		return a, nil
	case now.Sub(a.failedAt) < c.opts.MaxAccountAge:
		// The last request failed a moment ago. Use the cache, so that not every lookup
		// waits for another request.
		c.logStale(key, now.Sub(read))
		return a, nil
	}
	q := newGetCall("ServiceAccount", "serviceaccounts", key.namespace, key.name)
	return doShared(ctx, c, q, fmt.Sprintf("account %q", key), func(ctx context.Context) (*account, error) {
		return c.readAccount(ctx, q, key)
	})
}

// cachedAccount returns the cached service account and when it was read. It returns nil if
// no service account was read within Options.MaxStale.
func (c *Client) cachedAccount(key accountKey, now time.Time) (a *account, read time.Time) {
	if a, ok := c.accounts.getUnexpired(key, now); ok {
		return a, a.readAt
	}
	return nil, time.Time{}
}

// readAccount reads the service account from the API server. It uses the cached service
// account only if the API server is unavailable.
func (c *Client) readAccount(ctx context.Context, q *apiCall, key accountKey) (*account, error) {
	start := time.Now()
	old, read := c.cachedAccount(key, start)
	if old != nil && start.Sub(read) < c.opts.MaxAccountAge {
		return old, nil // another call read it in the meantime
	}
	var sa corev1.ServiceAccount
	err := c.sendCall(ctx, q, &sa)
	now := time.Now()
	switch {
	case err == nil:
		a := &account{
			ServiceAccount: regcred.ServiceAccount{Namespace: sa.Namespace, Name: sa.Name, UID: string(sa.UID), Annotations: sa.Annotations},
			pullSecrets:    secretNames(sa.ImagePullSecrets), readAt: start,
		}
		c.accounts.put(key, a, start.Add(c.opts.MaxStale), now)
		return a, nil
	case !isUnavailable(err):
		c.accounts.deleteKey(key)
		return nil, err
	case old == nil:
		return nil, err
	}
	stale := *old
	stale.readAt, stale.failedAt = read, now
	c.accounts.put(key, &stale, read.Add(c.opts.MaxStale), now)
	c.opts.Logger.Debug("the API server does not respond", "err", err)
	c.logStale(key, now.Sub(read))
	return &stale, nil
}

func (c *Client) logStale(key accountKey, age time.Duration) {
	c.opts.Logger.Debug("using the service account that was read earlier", "namespace", key.namespace, "name", key.name, "age", age)
}
