// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/internal/secretfile"
)

// step is what errors call the exchange.
const step = "exchange the service-account token"

// trade exchanges the token.
func (p *Provider) trade(ctx context.Context, v values) (credential, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, remote.Budget, fmt.Errorf("no answer within %v", remote.Budget))
	defer cancel()
	call, err := p.exchange.call(v)
	if err != nil {
		return credential{}, fmt.Errorf("%s: %w", step, err)
	}
	client, done, err := p.exchange.trust(p.client)
	if err != nil {
		return credential{}, fmt.Errorf("%s: %w", step, err)
	}
	defer done()
	p.log.Info("exchange the service-account token", "registry", v.registry, "endpoint", p.exchange.base)
	answer, err := client.Do(ctx, call)
	if err != nil {
		return credential{}, explain(err, v.claims)
	}
	cred, err := p.read(answer)
	if err != nil {
		return cred, fmt.Errorf("%s: %s: %w", step, p.exchange.base, err)
	}
	if cred.secret == v.req.ServiceAccountToken.Reveal() {
		p.log.Warn("the endpoint gave the service-account token itself, which a kubelet refuses unless cacheType is Token", "registry", v.registry)
	}
	return cred, nil
}

// explain adds to the error of an endpoint what may be done about it.
func explain(err error, claims jwt.Claims) error {
	var failed *remote.Error
	if !errors.As(err, &failed) {
		return err
	}
	switch failed.Status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity:
		return fmt.Errorf("%w; %s", err, describe(claims))
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return fmt.Errorf("%w; check exchange.url and exchange.method", err)
	}
	return err
}

// call fills in the templates.
func (c *exchange) call(v values) (remote.Call, error) {
	call := remote.Call{Step: step, Method: c.method, Header: http.Header{}, Accept: []int{http.StatusOK, http.StatusCreated}}
	var err error
	if call.URL, err = c.address(v); err != nil {
		return call, fmt.Errorf("url: %w", err)
	}
	if err := c.fillHeader(call.Header, v); err != nil {
		return call, err
	}
	if c.form != nil {
		call.Form = url.Values{}
	}
	for name, t := range c.form {
		value, err := t.expand(v, asIs)
		if err != nil {
			return call, fmt.Errorf("form.%s: %w", name, err)
		}
		call.Form.Set(name, value)
	}
	if c.json == nil {
		return call, nil
	}
	document, err := fillJSON(c.json, v)
	if err != nil {
		return call, fmt.Errorf("json: %w", err)
	}
	if call.Body, err = json.Marshal(document); err != nil {
		return call, errors.New("json: it cannot be written")
	}
	return call, nil
}

func (c *exchange) address(v values) (string, error) {
	path, err := c.path.expand(v, url.PathEscape)
	if err != nil {
		return "", err
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return "", errors.New("a placeholder in its path leads to another path")
		}
	}
	query, err := c.query.expand(v, url.QueryEscape)
	if err != nil {
		return "", err
	}
	if query != "" {
		query = "?" + query
	}
	return c.base + path + query, nil
}

func (c *exchange) fillHeader(header http.Header, v values) error {
	header.Set("Accept", "application/json")
	if c.json != nil {
		header.Set("Content-Type", "application/json")
	}
	for name, t := range c.headers {
		value, err := t.expand(v, asIs)
		if err == nil && strings.ContainsFunc(value, isControl) {
			err = errors.New("its value has a control character in it")
		}
		if err != nil {
			return fmt.Errorf("headers.%s: %w", name, err)
		}
		header.Set(name, value)
	}
	if c.basic == nil {
		return nil
	}
	username, err := c.basic[0].expand(v, asIs)
	if err == nil {
		err = checkUsername(username)
	}
	if err != nil {
		return fmt.Errorf("basicAuth.username: %w", err)
	}
	password, err := c.basic[1].expand(v, asIs)
	if err != nil {
		return fmt.Errorf("basicAuth.password: %w", err)
	}
	header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(username+":"+password)))
	return nil
}

// fillJSON returns the document with its templates filled in.
func fillJSON(value any, v values) (any, error) {
	switch node := value.(type) {
	case template:
		return node.expand(v, asIs)
	case map[string]any:
		filled := make(map[string]any, len(node))
		for name, member := range node {
			var err error
			if filled[name], err = fillJSON(member, v); err != nil {
				return nil, err
			}
		}
		return filled, nil
	case []any:
		filled := make([]any, len(node))
		for i, element := range node {
			var err error
			if filled[i], err = fillJSON(element, v); err != nil {
				return nil, err
			}
		}
		return filled, nil
	}
	return value, nil
}

// trust returns a client that trusts the authorities of the file too.
func (c *exchange) trust(client remote.Client) (remote.Client, func(), error) {
	if c.caFile == "" {
		return client, func() {}, nil
	}
	files, err := secretfile.Read(c.caFile)
	if err != nil {
		return client, nil, fmt.Errorf("caFile: read %w", err)
	}
	transport := remote.NewTransport()
	if transport.Trust(files[0].Data) != nil {
		return client, nil, fmt.Errorf("caFile: read %q: no certificates in PEM", c.caFile)
	}
	client.Transport = transport
	return client, transport.CloseIdleConnections, nil
}
