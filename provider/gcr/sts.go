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

const oauthScope = "https://www.googleapis.com/auth/cloud-platform" // in every universe

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
		p.externalTransport.Preconnect(ctx, p.serviceAccountsURL())
	}
	audience := cmp.Or(p.opts.STSAudience,
		"identitynamespace:"+p.opts.ProjectID+".svc.id.goog:"+p.opts.IdentityProvider)
	token, err := p.exchangeToken(ctx, "https://sts."+p.opts.UniverseDomain+"/v1/token", audience, jwtType, req.ServiceAccountToken)
	if err != nil {
		return accessToken{}, addTokenClaims(err, req.ServiceAccountToken)
	}
	if account == "" {
		return token, nil
	}
	return p.impersonateAccount(ctx, token, p.serviceAccountsURL()+url.PathEscape(account)+":generateAccessToken")
}

// jwtType is the token type of service-account tokens.
const jwtType = "urn:ietf:params:oauth:token-type:jwt"

// exchangeToken calls the Security Token Service (RFC 8693).
func (p *Provider) exchangeToken(ctx context.Context, address, audience, tokenType string, subject plugin.Secret) (accessToken, error) {
	call, err := newPostCall(stepPod, address, map[string]string{
		"audience":             audience,
		"grant_type":           "urn:ietf:params:oauth:grant-type:token-exchange",
		"requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
		"scope":                oauthScope,
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
	token, err := parseOAuthToken(answer.Body)
	if err != nil {
		return accessToken{}, badResponseError(stepPod, http.MethodPost, call.URL, err)
	}
	return token, nil
}

// impersonateAccount gets a token of a Google service account from the IAM credentials
// service.
func (p *Provider) impersonateAccount(ctx context.Context, as accessToken, address string) (accessToken, error) {
	account := accountFromURL(address)
	step := fmt.Sprintf("impersonate %q", truncate(account))
	p.opts.Logger.Info("impersonating a Google service account", "account", account)
	call, err := newPostCall(step, address, map[string][]string{"scope": {oauthScope}})
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
	token, err := parseImpersonatedToken(answer.Body, now)
	if err != nil {
		return accessToken{}, badResponseError(step, http.MethodPost, call.URL, err)
	}
	return token, nil
}

// serviceAccountsURL returns the base URL of service accounts in the IAM credentials service.
func (p *Provider) serviceAccountsURL() string {
	return "https://iamcredentials." + p.opts.UniverseDomain + "/v1/projects/-/serviceAccounts/"
}

// accountFromURL returns the service account in the URL of an action.
func accountFromURL(address string) string {
	name := strings.TrimSuffix(address[strings.LastIndexByte(address, '/')+1:], ":generateAccessToken")
	if account, err := url.PathUnescape(name); err == nil {
		return account
	}
	return name
}

// newPostCall returns a call that sends a JSON body.
func newPostCall(step, address string, body any) (remote.Call, error) {
	data, err := json.Marshal(body)
	return remote.Call{
		Step: step, URL: address, Body: data, Header: http.Header{"Content-Type": {"application/json"}},
	}, err
}
