// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr

import (
	"context"
	"net/http"

	"github.com/regcred/regcred/internal/remote"
)

// nodeToken asks for the token of the node's service account. The account's
// e-mail address is of no use for an answer, so it is not asked for.
func (p *Provider) nodeToken(ctx context.Context) (accessToken, error) {
	const suffix = "instance/service-accounts/default/token"
	body, err := p.metadata(ctx, stepNode, suffix)
	if err != nil {
		return accessToken{}, err
	}
	token, err := parseOAuth([]byte(body))
	if err != nil {
		return accessToken{}, lied(stepNode, http.MethodGet, p.metadataURL(suffix), err)
	}
	return token, nil
}

// metadata reads one value of the metadata server. Where nobody said where
// that is, who answers must say that it is Google's: a stranger's may answer at
// a link-local address, or be what a resolver says. Its errors are those of
// package remote.
func (p *Provider) metadata(ctx context.Context, step, suffix string) (string, error) {
	client := p.client()
	client.Transport = p.server
	call := remote.Call{
		Step: step, URL: p.metadataURL(suffix),
		Header: http.Header{"Metadata-Flavor": {"Google"}},
		// While a node boots, the server does not know its service account yet.
		Retry: []int{http.StatusNotFound},
	}
	answer, err := client.Do(ctx, call)
	if err != nil {
		return "", err
	}
	if p.server != http.RoundTripper(p.local) && answer.Header.Get("Metadata-Flavor") != "Google" {
		return "", lied(step, http.MethodGet, call.URL, errNotGoogle)
	}
	return string(answer.Body), nil
}

func (p *Provider) metadataURL(suffix string) string {
	return "http://" + p.opts.MetadataHost + "/computeMetadata/v1/" + suffix
}
