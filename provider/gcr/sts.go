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
	"time"

	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/plugin"
)

const scope = "https://www.googleapis.com/auth/cloud-platform" // in every universe

// podToken exchanges the token of the pod's service account for one of Google.
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
	token, err := p.exchange(ctx, req.ServiceAccountToken)
	if err != nil {
		return accessToken{}, withClaims(err, req.ServiceAccountToken)
	}
	if account == "" {
		return token, nil
	}
	p.opts.Log.Info("impersonating a Google service account", "account", account)
	return p.impersonate(ctx, token, account)
}

// exchange asks the Security Token Service (RFC 8693).
func (p *Provider) exchange(ctx context.Context, subject plugin.Secret) (accessToken, error) {
	audience := cmp.Or(p.opts.STSAudience,
		"identitynamespace:"+p.opts.ProjectID+".svc.id.goog:"+p.opts.IdentityProvider)
	call, err := post(stepPod, "https://sts."+p.opts.UniverseDomain+"/v1/token", map[string]string{
		"audience":             audience,
		"grant_type":           "urn:ietf:params:oauth:grant-type:token-exchange",
		"requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
		"scope":                scope,
		"subject_token":        subject.Reveal(),
		"subject_token_type":   "urn:ietf:params:oauth:token-type:jwt",
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
		return accessToken{}, lied(stepPod, http.MethodPost, call.URL, err)
	}
	return token, nil
}

// impersonate asks the IAM credentials service for a token of a Google service
// account.
func (p *Provider) impersonate(ctx context.Context, as accessToken, account string) (accessToken, error) {
	step := fmt.Sprintf("impersonate %q", clip(account))
	call, err := post(step, p.accounts()+url.PathEscape(account)+":generateAccessToken", map[string][]string{"scope": {scope}})
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
		return accessToken{}, lied(step, http.MethodPost, call.URL, err)
	}
	return token, nil
}

// accounts is where the IAM credentials service has service accounts.
func (p *Provider) accounts() string {
	return "https://iamcredentials." + p.opts.UniverseDomain + "/v1/projects/-/serviceAccounts/"
}

// post makes a call with a body in JSON.
func post(step, address string, body any) (remote.Call, error) {
	data, err := json.Marshal(body)
	return remote.Call{
		Step: step, URL: address, Body: data, Header: http.Header{"Content-Type": {"application/json"}},
	}, err
}
