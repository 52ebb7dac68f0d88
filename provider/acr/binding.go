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
	"strconv"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/internal/remote"
)

// DefaultBindingCA is the authority of identity bindings on the nodes of AKS.
const DefaultBindingCA = "/etc/kubernetes/certs/ca.crt"

// Binding says where AKS hands out tokens for identity bindings: behind the
// API server, under a name of its own. The zero value is for nowhere.
type Binding struct {
	SNIName   string // the name that it is asked by
	APIServer string // where that is: address or name of the API server, with a port or without

	DefaultClientID string // for service accounts without the annotation
	DefaultTenantID string // likewise; for the exchange alone

	CAFile string // whom to trust, in PEM; "" means [DefaultBindingCA]
}

func (b Binding) check() error {
	switch {
	case b.SNIName == "" && b.APIServer != "":
		return errors.New("--ib-apiserver-ip needs --ib-sni-name")
	case b.SNIName == "" && b.DefaultClientID != "":
		return errors.New("--ib-default-client-id needs --ib-sni-name")
	case b.SNIName == "" && b.DefaultTenantID != "":
		return errors.New("--ib-default-tenant-id needs --ib-sni-name")
	case b.SNIName == "":
		return nil
	case b.APIServer == "":
		return errors.New("--ib-sni-name needs --ib-apiserver-ip")
	case !hostpattern.IsName(b.SNIName):
		return fmt.Errorf("--ib-sni-name %q is not the name of a host, without scheme and port", b.SNIName)
	}
	host, port, err := net.SplitHostPort(b.address())
	if _, invalid := strconv.ParseUint(port, 10, 16); err != nil || invalid != nil || net.ParseIP(host) == nil && !hostpattern.IsName(host) {
		return fmt.Errorf("--ib-apiserver-ip %q is neither an address nor the name of a host", b.APIServer)
	}
	return nil
}

// address is where to connect to.
func (b Binding) address() string {
	if _, _, err := net.SplitHostPort(b.APIServer); err == nil {
		return b.APIServer
	}
	return net.JoinHostPort(strings.Trim(b.APIServer, "[]"), "443")
}

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
			clientID, assertion(string(s.req.ServiceAccountToken)))
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
	transport := remote.NewTransport()
	transport.Proxy = nil
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, b.address())
	}
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	client := s.client
	client.Transport = transport
	return client, transport.CloseIdleConnections, nil
}
