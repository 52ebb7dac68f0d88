// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"

	"github.com/regcred/regcred/plugin"
)

// ServiceAccounts gives a [Keyring] access to service accounts, for providers
// with tokenAttributes (KEP-4412). Implementations must be safe for
// concurrent use. A call that outlasts its ctx is left behind, and what it then
// returns is dropped. Their errors are shown and logged, so they hold no secret.
type ServiceAccounts interface {
	// GetServiceAccount reads a service account. A kubelet does so for each
	// lookup; an implementation may keep one for a few seconds.
	GetServiceAccount(ctx context.Context, namespace, name string) (*ServiceAccount, error)
	// RequestToken returns a token with the API's default expiry. As a kubelet
	// does, an implementation keeps a pod's token for most of its life: with
	// cacheType Token, answers are cached by it.
	RequestToken(ctx context.Context, req TokenRequest) (plugin.Secret, error)
}

// ServiceAccount is what a keyring needs to know of one.
type ServiceAccount struct {
	Namespace, Name, UID string
	Annotations          map[string]string
}

// TokenRequest asks for a token of a service account, for one audience, bound
// to a pod.
type TokenRequest struct {
	Namespace, ServiceAccount, ServiceAccountUID string
	PodName, PodUID                              string
	Audience                                     string
}
