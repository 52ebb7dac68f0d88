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
	if err := remote.CheckPathValue(account); account != "" && err != nil {
		return accessToken{}, fmt.Errorf("annotation %s: %w", AnnotationAccount, err)
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
	return p.postForToken(ctx, stepExchange, address, http.Header{}, map[string]string{
		"audience":             audience,
		"grant_type":           "urn:ietf:params:oauth:grant-type:token-exchange",
		"requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
		"scope":                oauthScope,
		"subject_token":        subject.Reveal(),
		"subject_token_type":   tokenType,
	}, func(answer *remote.Response) (accessToken, error) { return parseOAuthToken(answer.Body) })
}

// impersonateAccount gets a token of a Google service account from the IAM Service Account
// Credentials API.
func (p *Provider) impersonateAccount(ctx context.Context, as accessToken, address string) (accessToken, error) {
	account := accountFromURL(address)
	p.opts.Logger.Info("impersonating a Google service account", "account", account)
	header := http.Header{"Authorization": {"Bearer " + as.value.Reveal()}}
	body := map[string][]string{"scope": {oauthScope}}
	return p.postForToken(ctx, fmt.Sprintf("impersonate %q", truncateText(account)), address, header, body, func(answer *remote.Response) (accessToken, error) {
		now, err := http.ParseTime(answer.Header.Get("Date"))
		if err != nil {
			now = time.Now()
		}
		return parseImpersonatedToken(answer.Body, now)
	})
}

// postForToken sends a JSON body and parses the token in the response.
func (p *Provider) postForToken(ctx context.Context, step, address string, header http.Header, body any, parse func(*remote.Response) (accessToken, error)) (token accessToken, err error) {
	call := remote.Call{Step: step, URL: address, Header: header}
	call.Header.Set("Content-Type", "application/json")
	if call.Body, err = json.Marshal(body); err != nil {
		return token, err
	}
	answer, err := p.newClient().Do(ctx, call)
	if err != nil {
		return token, err
	}
	if token, err = parse(answer); err != nil {
		return token, badResponseError(step, http.MethodPost, address, err)
	}
	return token, nil
}

// serviceAccountsURL returns the base URL of service accounts in the IAM Service Account
// Credentials API.
func (p *Provider) serviceAccountsURL() string {
	return "https://iamcredentials." + p.opts.UniverseDomain + "/v1/projects/-/serviceAccounts/"
}

// accountFromURL returns the service account in a generateAccessToken URL.
func accountFromURL(address string) string {
	name := strings.TrimSuffix(address[strings.LastIndexByte(address, '/')+1:], ":generateAccessToken")
	if account, err := url.PathUnescape(name); err == nil {
		return account
	}
	return name
}
