// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"context"
	"fmt"

	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/internal/secretfile"
)

// connections holds the transports of a request. The key is the CA file of the steps that use the
// transport.
type connections map[string]*remote.Transport

// startConnections starts connecting to every host in the exchange. The hosts come only from the
// configuration, not from requests or responses.
func (p *Provider) startConnections(ctx context.Context) (connections, error) {
	l := connections{}
	for _, s := range p.exchange.steps {
		if l[s.caFile] == nil {
			transport := remote.NewTransport()
			if err := s.addCAs(transport); err != nil {
				return l, fmt.Errorf("%s.caFile: read %w", s.field, err)
			}
			l[s.caFile] = transport
		}
		l[s.caFile].Preconnect(ctx, s.base)
	}
	return l, nil
}

func (l connections) close() {
	for _, transport := range l {
		transport.CloseIdleConnections()
	}
}

// addCAs adds the CAs from the step's file.
func (c *compiledStep) addCAs(transport *remote.Transport) error {
	if c.caFile == "" {
		return nil
	}
	data, err := secretfile.ReadTrusted(c.caFile) // a user who can write this file controls who receives the token
	if err != nil {
		return err
	}
	if err := transport.AddCAs(data); err != nil {
		return fmt.Errorf("%q: %w", c.caFile, err)
	}
	return nil
}
