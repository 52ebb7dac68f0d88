// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr

import (
	"context"
	"net/http"

	"github.com/regcred/regcred/internal/remote"
)

// nodeToken gets the token of the node's service account.
func (p *Provider) nodeToken(ctx context.Context) (accessToken, error) {
	const suffix = "instance/service-accounts/default/token"
	body, err := p.getMetadata(ctx, stepNodeToken, suffix)
	if err != nil {
		return accessToken{}, err
	}
	token, err := parseOAuthToken([]byte(body))
	if err != nil {
		return accessToken{}, badResponseError(stepNodeToken, http.MethodGet, p.metadataURL(suffix), err)
	}
	return token, nil
}

// getMetadata gets a value from the metadata server. If no address is configured, the response must
// have Google's header. Another server may use the link-local address, or a resolver may return the
// address of another server.
func (p *Provider) getMetadata(ctx context.Context, step, suffix string) (string, error) {
	client := p.newClient()
	client.Transport = p.metadataRoundTripper
	call := remote.Call{
		Step: step, URL: p.metadataURL(suffix),
		Header: http.Header{"Metadata-Flavor": {"Google"}},
		// While a node boots, the metadata server returns 404 until it has the service account.
		RetryStatuses: []int{http.StatusNotFound},
	}
	answer, err := client.Do(ctx, call)
	if err != nil {
		return "", err
	}
	if p.metadataRoundTripper != http.RoundTripper(p.metadataTransport) && answer.Header.Get("Metadata-Flavor") != "Google" {
		return "", badResponseError(step, http.MethodGet, call.URL, errNotGoogle)
	}
	return string(answer.Body), nil
}

func (p *Provider) metadataURL(suffix string) string {
	return "http://" + p.opts.MetadataHost + "/computeMetadata/v1/" + suffix
}
