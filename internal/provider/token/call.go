// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/remote"
)

// describeExchange describes the exchange for error messages.
func (v placeholderValues) describeExchange() string {
	switch {
	case v.token.text == "":
		return "get a credential"
	case v.token.path != "":
		return fmt.Sprintf("exchange the token in %q", v.token.path)
	}
	return "exchange the service-account token"
}

// callSteps calls the endpoints in order. While connections are being established, it does the work
// that needs no connection.
func (p *Provider) callSteps(ctx context.Context, v placeholderValues) (cred credential, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, remote.RequestTimeout, fmt.Errorf("no response within %v", remote.RequestTimeout))
	defer cancel()
	l, err := p.startConnections(ctx)
	defer l.close()
	if err != nil {
		return cred, fmt.Errorf("%s: %w", v.describeExchange(), err)
	}
	if v, err = p.prepareValues(v); err != nil {
		return cred, err
	}
	v.responses = map[string]any{}
	var expires time.Time
	for _, s := range p.exchange.steps {
		if cred, err = p.callStep(ctx, l, s, v); err != nil {
			return credential{}, err
		}
		expires = earlierTime(expires, cred.expires)
	}
	cred.expires, cred.username = expires, cmp.Or(cred.username, v.username)
	p.logWarnings(cred, v)
	return cred, nil
}

// prepareValues validates the token and sets the values that are the same for all steps.
func (p *Provider) prepareValues(v placeholderValues) (_ placeholderValues, err error) {
	if p.needsToken {
		if err := p.checkClaims(&v.token); err != nil {
			return v, err
		}
	}
	if v.username, err = p.expandUsername(v); err != nil {
		return v, err
	}
	if s := p.exchange.signer; s != nil {
		if v.signedJWT, err = s.signToken(v, p.opts.Now()); err != nil {
			return v, fmt.Errorf("%s: exchange.jwt.%w", v.describeExchange(), err)
		}
	}
	return v, nil
}

// logWarnings logs problems with a credential. The credential is returned nevertheless.
func (p *Provider) logWarnings(cred credential, v placeholderValues) {
	if v.token.path == "" && cred.secret == v.token.text {
		p.opts.Logger.Warn("the endpoint returned the service-account token, which the kubelet rejects unless cacheType is Token", "registry", v.registry)
	}
	if left := cred.expires.Sub(p.opts.Now()); !cred.expires.IsZero() && left < minRemainingLifetime {
		p.opts.Logger.Warn("the credential might expire before the pull completes; check the node's clock", "registry", v.registry, "left", left.Round(time.Second).String())
	}
}

// callStep runs one step. Its response contains the credential, or values for later steps.
func (p *Provider) callStep(ctx context.Context, l connections, s *compiledStep, v placeholderValues) (credential, error) {
	attempt := v.describeExchange()
	if s.name != "" {
		attempt += fmt.Sprintf(", step %q", s.name)
	}
	call, err := s.newCall(v)
	if err != nil {
		return credential{}, fmt.Errorf("%s: %w", attempt, err)
	}
	call.Step = attempt
	p.opts.Logger.Info(attempt, "registry", v.registry, "endpoint", s.base)
	client := p.client
	client.Transport = l[s.caFile]
	answer, err := client.Do(ctx, call)
	if err != nil {
		return credential{}, p.addFix(err, s, v)
	}
	cred, err := p.readResponse(s, answer, v)
	if err != nil {
		return cred, fmt.Errorf("%s: %s: %w", attempt, s.base, err)
	}
	return cred, nil
}

// addFix adds a fix to an endpoint's error.
func (p *Provider) addFix(err error, s *compiledStep, v placeholderValues) error {
	var failed *remote.Error
	if !errors.As(err, &failed) {
		return err
	}
	switch failed.Status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity:
		if useAny(s.allTemplates(), "token") {
			err = fmt.Errorf("%w; %s", err, describeClaims(v.token.claims))
		}
		if useAny(s.allTemplates(), "jwt") {
			err = fmt.Errorf("%w; %s", err, p.exchange.signer.describeSigned(v.signedJWT))
		}
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return fmt.Errorf("%w; check %s.url and %s.method", err, s.field, s.field)
	}
	return err
}

// newCall builds the request of a step by expanding its templates.
func (c *compiledStep) newCall(v placeholderValues) (remote.Call, error) {
	call := remote.Call{Method: c.method, Header: http.Header{}, AcceptStatuses: []int{http.StatusOK, http.StatusCreated}}
	var err error
	if call.URL, err = c.expandURL(v); err != nil {
		return call, fmt.Errorf("url: %w", err)
	}
	if err := c.fillHeader(call.Header, v); err != nil {
		return call, err
	}
	if c.form != nil {
		call.Form = url.Values{}
	}
	for name, t := range c.form {
		value, err := t.expandWith(v, noEscape)
		if err != nil {
			return call, fmt.Errorf("form.%s: %w", name, err)
		}
		call.Form.Set(name, value)
	}
	if c.json == nil {
		return call, nil
	}
	document, err := expandJSON(c.json, v)
	if err != nil {
		return call, fmt.Errorf("json: %w", err)
	}
	if call.Body, err = json.Marshal(document); err != nil {
		return call, errors.New("json: cannot encode it")
	}
	return call, nil
}

func (c *compiledStep) expandURL(v placeholderValues) (string, error) {
	if err := c.path.checkPathValues(v); err != nil {
		return "", err
	}
	path, err := c.path.expandWith(v, url.PathEscape)
	if err != nil {
		return "", err
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment != "" && strings.Trim(segment, ".") == "" { // several values, or a value next to a dot
			return "", errors.New("a placeholder must not expand to a . or .. path segment")
		}
	}
	query, err := c.query.expandWith(v, url.QueryEscape)
	if err != nil {
		return "", err
	}
	if query != "" {
		query = "?" + query
	}
	return c.base + path + query, nil
}

func (c *compiledStep) fillHeader(header http.Header, v placeholderValues) error {
	header.Set("Accept", "application/json")
	if c.json != nil {
		header.Set("Content-Type", "application/json")
	}
	for name, t := range c.headers {
		value, err := t.expandWith(v, noEscape)
		if err == nil && strings.ContainsFunc(value, isControl) {
			err = errors.New("the value contains a control character")
		}
		if err != nil {
			return fmt.Errorf("headers.%s: %w", name, err)
		}
		header.Set(name, value)
	}
	if c.basicAuth == nil {
		return nil
	}
	username, err := c.basicAuth[0].expandWith(v, noEscape)
	if err == nil {
		err = checkUsername(username)
	}
	if err != nil {
		return fmt.Errorf("basicAuth.username: %w", err)
	}
	password, err := c.basicAuth[1].expandWith(v, noEscape)
	if err != nil {
		return fmt.Errorf("basicAuth.password: %w", err)
	}
	header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(username+":"+password)))
	return nil
}
