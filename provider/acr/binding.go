// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/regcred/regcred/internal/remote"
)

// bound is the identity that is bound to the service account. The token
// endpoint knows the tenant.
func (s *session) bound(clientID, tenant string) (identity, error) {
	if clientID == "" {
		return identity{}, missingError{s.subject(), clientIDAnnotation}
	}
	if tenant == "" {
		cfg, err := s.config()
		if err != nil {
			return identity{}, err
		}
		tenant = cfg.TenantID
	}
	return identity{tenant: tenant, token: func(ctx context.Context) (string, error) {
		client, closeIdle, err := s.bindingClient()
		if err != nil {
			return "", err
		}
		defer closeIdle()
		token, err := clientCredentials(ctx, client, "get a token by the identity binding", "https://"+s.opts.Binding.SNIName+"/",
			clientID, assertion(s.req.ServiceAccountToken.Reveal()))
		if err != nil {
			return "", hint(err, fmt.Sprintf("asked at %s; check that an identity binding lets %s use identity %.100q",
				s.opts.Binding.address(), s.subject(), clientID))
		}
		return token, nil
	}}, nil
}

// bindingClient trusts the cluster's authority alone and takes no proxy, which
// would not know the name.
func (s *session) bindingClient() (remote.Client, func(), error) {
	b := s.opts.Binding
	path := b.CAFile
	if path == "" {
		path = DefaultBindingCA
	}
	pem, err := readFile(path)
	roots := x509.NewCertPool()
	if err == nil && !roots.AppendCertsFromPEM(pem) {
		err = errors.New("it has no certificate in PEM")
	}
	if err != nil {
		return remote.Client{}, nil, fmt.Errorf("the authority of identity bindings, %q: %w", path, err)
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	base := remote.Base()
	base.Proxy = nil
	base.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, b.address())
	}
	base.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	transport := remote.Wrap(base)
	client := s.client
	client.Transport = transport
	return client, transport.CloseIdleConnections, nil
}
