// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package orasclient lets programs that are built on oras-go pull as a kubelet
// does, with the credentials of a [regcred.Keyring].
//
//	client := orasclient.New(keychain.New(keyring, keychain.Options{}))
//	repo, err := remote.NewRepository("registry.example/team/app")
//	…
//	repo.Client = client
//	…
//	desc, err := oras.Copy(ctx, repo, "v1", store, "v1", oras.DefaultCopyOptions)
//
// A [Client] stands where oras-go has an auth.Client. That one asks for the
// credential of a host, and there is one of it. A Client asks the Keyring about the
// repository of each request, so that patterns and keys with a path are heeded, and
// tries every credential as [keychain.Transport] does.
//
// It is no credential store, and takes none: logins that are kept in files are
// the Keyring's to read ([regcred.NodeDockerConfig]).
package orasclient

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"oras.land/oras-go/v2/registry/remote"

	"github.com/regcred/regcred/internal/scrub"
	"github.com/regcred/regcred/keychain"
)

// Client is a [remote.Client] for every repository and every registry, and safe
// for concurrent use. It retries what is worth it and logs in: neither
// oras-go's retry.Client nor its auth.Client is needed around or below it.
//
// It keeps the credentials that it found for a repository until the registry
// refuses them, for the 1,000 repositories that were asked for last.
type Client struct{ transports transports }

var (
	_ remote.Client     = (*Client)(nil)
	_ http.RoundTripper = (*Client)(nil)
)

// New returns a Client of a Keychain, which says for whom it asks, what makes
// the requests, and whether plain HTTP is allowed beyond loopback
// (Repository.PlainHTTP alone allows nothing).
func New(keys *keychain.Keychain) *Client {
	return &Client{transports{keys: keys, kept: map[target]*kept{}}}
}

// Do is that of [remote.Client]. It follows ten redirects at most, and no
// credential goes along to another host. Its errors name no signature of the addresses
// that a registry redirects to. If a provider failed, and there is no credential,
// a [*regcred.LookupError] is among them. Where every credential was refused the
// answer, which oras-go makes an errcode.ErrorResponse of, has a message for each.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	resp, err := (&http.Client{Transport: c}).Do(req)
	if e, ok := errors.AsType[*url.Error](err); ok {
		return nil, &url.Error{Op: e.Op, URL: shown(e.URL), Err: e.Err}
	}
	return resp, err
}

// RoundTrip is that of [http.RoundTripper], for what takes an [http.Client] and
// not a [remote.Client], such as Helm's library, or an auth.Client, which never
// sees a challenge then:
//
//	registry.NewClient(registry.ClientOptHTTPClient(&http.Client{Transport: client}))
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) {
	t, err := c.transports.of(first(req))
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, fmt.Errorf("orasclient: %w", err)
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	answers(resp, req)
	return resp, nil
}

// first is the request that was redirected, maybe more than once. Where that leads
// may look like another repository, and gets nothing for it.
func first(req *http.Request) *http.Request {
	for req.Response != nil && req.Response.Request != nil {
		req = req.Response.Request
	}
	return req
}

// answers makes resp that to req. The one that was sent has the password in it,
// which oras-go would put into the next; and an error names its address, with the
// signature.
func answers(resp *http.Response, req *http.Request) {
	resp.Request = req
	if resp.StatusCode >= http.StatusBadRequest && req.Response != nil && req.URL.RawQuery != "" {
		resp.Request = req.Clone(req.Context())
		resp.Request.URL.RawQuery = scrub.Mask
	}
}

// shown is an address without what may be its signature.
func shown(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.RawQuery == "" {
		return address
	}
	u.RawQuery = scrub.Mask
	return u.String()
}
