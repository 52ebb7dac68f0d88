// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"time"

	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/internal/secretfile"
)

// boundIdentity returns the identity that an identity binding gives to the service account. The
// token endpoint selects the tenant of the token; tenant is only for the exchange.
func (s *session) boundIdentity(clientID, tenant string) (identity, error) {
	if clientID == "" {
		return identity{}, missingIdentityError{s.serviceAccountName(), clientIDAnnotation}
	}
	if tenant == "" {
		cfg, err := s.loadConfig()
		if err != nil {
			return identity{}, err
		}
		tenant = cfg.TenantID
	}
	return identity{tenant: tenant, token: func(ctx context.Context) (string, error) {
		client, err := s.bindingClient()
		if err != nil {
			return "", err
		}
		token, err := clientCredentials(ctx, client, "get a token through the identity binding", "https://"+s.opts.Binding.SNIName+"/",
			clientID, assertionParams(s.req.ServiceAccountToken.Reveal()))
		return token, addHint(err, fmt.Sprintf("the request was sent to %s; check that an identity binding allows %s to use identity %.100q",
			s.opts.Binding.apiServerAddress(), s.serviceAccountName(), clientID))
	}}, nil
}

// bindingClient returns a client that trusts only the cluster's CA. It uses no proxy, because a
// proxy could not resolve the endpoint's TLS server name.
func (s *session) bindingClient() (remote.Client, error) {
	b := s.opts.Binding
	path := cmp.Or(b.CAFile, DefaultBindingCA)
	pem, err := secretfile.ReadTrusted(path)
	if err != nil {
		return remote.Client{}, fmt.Errorf("read the identity binding CA %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return remote.Client{}, fmt.Errorf("read the identity binding CA %q: the file contains no certificate in PEM format", path)
	}
	dial, base := (&net.Dialer{Timeout: 10 * time.Second}).DialContext, remote.NewBaseTransport()
	base.Proxy = nil
	base.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dial(ctx, network, b.apiServerAddress())
	}
	base.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	client := s.client
	client.Transport = s.newTransport(base)
	return client, nil
}
