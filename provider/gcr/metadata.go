// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"cloud.google.com/go/compute/metadata"

	"github.com/regcred/regcred/internal/remote"
)

const (
	stepNode = "get the access token of the node"
	stepPod  = "exchange the service-account token"
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

// metadata reads one value of the metadata server. Its errors are those of
// package remote.
func (p *Provider) metadata(ctx context.Context, step, suffix string) (string, error) {
	a := &asker{host: p.opts.MetadataHost, step: step, client: remote.Client{
		Transport: p.http, UserAgent: userAgent, Timeout: p.opts.Timeout, Backoff: p.opts.Backoff,
	}}
	value, err := metadata.NewClient(&http.Client{Transport: a}).GetWithContext(ctx, suffix)
	if a.err != nil {
		err = a.err
	}
	return value, err
}

func (p *Provider) metadataURL(suffix string) string {
	return "http://" + p.opts.MetadataHost + "/computeMetadata/v1/" + suffix
}

// asker makes the requests of Google's client by package remote, so that they
// are retried, bounded and reported as all others are. The client alone reads
// bodies of any length, puts them into its errors, and takes the server's
// address from nothing but the environment.
type asker struct {
	client remote.Client
	host   string
	step   string
	err    error
}

// errAsked stands for asker.err, which the client must not see: by some of
// its causes it would begin anew.
var errAsked = errors.New("the metadata server gave no answer")

// RoundTrip makes one request.
func (a *asker) RoundTrip(req *http.Request) (*http.Response, error) {
	address := *req.URL
	address.Host = a.host
	answer, err := a.client.Do(req.Context(), remote.Call{
		Step: a.step, URL: address.String(),
		Header: http.Header{"Metadata-Flavor": req.Header["Metadata-Flavor"]},
		// While a node boots, the server does not know its service account yet.
		Retry: []int{http.StatusNotFound},
	})
	if err != nil {
		a.err = err
		return nil, errAsked
	}
	return &http.Response{
		StatusCode: answer.Status, Header: answer.Header, Request: req,
		Body: io.NopCloser(bytes.NewReader(answer.Body)),
	}, nil
}
