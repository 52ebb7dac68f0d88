// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"context"
	"errors"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/regcred/regcred"
	protocol "github.com/regcred/regcred/plugin"
)

// GetServiceAccountFunc returns a service account.
type GetServiceAccountFunc func(namespace, name string) (*corev1.ServiceAccount, error)

// getServiceAccountTokenFunc requests a token or returns a cached token.
type getServiceAccountTokenFunc func(namespace, name string, tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)

// accountClient implements [regcred.ServiceAccountClient] with two functions of the kubelet. The
// functions take no context. The Keyring stops waiting for a call that takes too long.
type accountClient struct {
	getAccount GetServiceAccountFunc
	getToken   getServiceAccountTokenFunc
}

// GetServiceAccount implements [regcred.ServiceAccountClient].
func (a accountClient) GetServiceAccount(_ context.Context, namespace, name string) (*regcred.ServiceAccount, error) {
	if a.getAccount == nil {
		return nil, errors.New("this kubelet has no access to service accounts")
	}
	sa, err := a.getAccount(namespace, name)
	if err != nil || sa == nil {
		return nil, err
	}
	return &regcred.ServiceAccount{Namespace: namespace, Name: name, UID: string(sa.UID), Annotations: sa.Annotations}, nil
}

// RequestToken implements [regcred.ServiceAccountClient]. The kubelet's token manager
// caches tokens by all fields of the request.
func (a accountClient) RequestToken(_ context.Context, req regcred.TokenRequest) (protocol.Secret, error) {
	if a.getToken == nil {
		return protocol.Secret{}, errors.New("this kubelet cannot request tokens")
	}
	tr, err := a.getToken(req.Namespace, req.ServiceAccount, &authenticationv1.TokenRequest{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(req.ServiceAccountUID)},
		Spec: authenticationv1.TokenRequestSpec{
			Audiences:      []string{req.Audience},
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: req.PodName, UID: types.UID(req.PodUID)},
		},
	})
	if err != nil || tr == nil {
		return protocol.Secret{}, err
	}
	return protocol.NewSecret(tr.Status.Token), nil
}
