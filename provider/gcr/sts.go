// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/plugin"
)

const scope = "https://www.googleapis.com/auth/cloud-platform" // in every universe

// podToken exchanges the service account's token for a Google access token.
func (p *Provider) podToken(ctx context.Context, req *plugin.Request) (accessToken, error) {
	if req.ServiceAccountToken.IsZero() {
		return accessToken{}, errNoServiceAccount
	}
	account := req.ServiceAccountAnnotations[AnnotationAccount]
	if !p.opts.Impersonate {
		account = ""
	}
	if account != "" && p.opts.Transport == nil {
		p.outside.Ahead(ctx, p.accounts())
	}
	audience := cmp.Or(p.opts.STSAudience,
		"identitynamespace:"+p.opts.ProjectID+".svc.id.goog:"+p.opts.IdentityProvider)
	token, err := p.exchange(ctx, "https://sts."+p.opts.UniverseDomain+"/v1/token", audience, jwtType, req.ServiceAccountToken)
	if err != nil {
		return accessToken{}, withClaims(err, req.ServiceAccountToken)
	}
	if account == "" {
		return token, nil
	}
	return p.impersonate(ctx, token, p.accounts()+url.PathEscape(account)+":generateAccessToken")
}

// jwtType is the token type of service-account tokens.
const jwtType = "urn:ietf:params:oauth:token-type:jwt"

// exchange calls the Security Token Service (RFC 8693).
func (p *Provider) exchange(ctx context.Context, address, audience, tokenType string, subject plugin.Secret) (accessToken, error) {
	call, err := post(stepPod, address, map[string]string{
		"audience":             audience,
		"grant_type":           "urn:ietf:params:oauth:grant-type:token-exchange",
		"requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
		"scope":                scope,
		"subject_token":        subject.Reveal(),
		"subject_token_type":   tokenType,
	})
	if err != nil {
		return accessToken{}, err
	}
	answer, err := p.client().Do(ctx, call)
	if err != nil {
		return accessToken{}, err
	}
	token, err := parseOAuth(answer.Body)
	if err != nil {
		return accessToken{}, badResponse(stepPod, http.MethodPost, call.URL, err)
	}
	return token, nil
}

// impersonate gets a token of a Google service account from the IAM credentials
// service.
func (p *Provider) impersonate(ctx context.Context, as accessToken, address string) (accessToken, error) {
	account := accountOf(address)
	step := fmt.Sprintf("impersonate %q", clip(account))
	p.opts.Logger.Info("impersonating a Google service account", "account", account)
	call, err := post(step, address, map[string][]string{"scope": {scope}})
	if err != nil {
		return accessToken{}, err
	}
	call.Header.Set("Authorization", "Bearer "+as.value.Reveal())
	answer, err := p.client().Do(ctx, call)
	if err != nil {
		return accessToken{}, err
	}
	now, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	token, err := parseImpersonated(answer.Body, now)
	if err != nil {
		return accessToken{}, badResponse(step, http.MethodPost, call.URL, err)
	}
	return token, nil
}

// accounts returns the base URL of service accounts in the IAM credentials service.
func (p *Provider) accounts() string {
	return "https://iamcredentials." + p.opts.UniverseDomain + "/v1/projects/-/serviceAccounts/"
}

// accountOf returns the service account in the URL of an action.
func accountOf(address string) string {
	name := strings.TrimSuffix(address[strings.LastIndexByte(address, '/')+1:], ":generateAccessToken")
	if account, err := url.PathUnescape(name); err == nil {
		return account
	}
	return name
}

// post returns a call that sends a JSON body.
func post(step, address string, body any) (remote.Call, error) {
	data, err := json.Marshal(body)
	return remote.Call{
		Step: step, URL: address, Body: data, Header: http.Header{"Content-Type": {"application/json"}},
	}, err
}
