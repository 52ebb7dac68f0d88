// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package orasclient lets programs based on oras-go pull as a kubelet does, with
// the credentials of a regcred.Keyring.
//
//	repo, err := remote.NewRepository(host + "/team/app")
//	if err != nil {
//		fmt.Println(err)
//		return
//	}
//	repo.Client = orasclient.New(keychain.New(keyring, keychain.Options{}))
//	repo.PlainHTTP = true // a registry on loopback
//	desc, err := oras.Copy(ctx, repo, "v1", store, "v1", oras.DefaultCopyOptions)
//
// A [Client] replaces oras-go's auth.Client, which uses one credential per host. A
// Client looks up the credentials for the repository of each request, so patterns
// and auth keys with a path work. It tries all of these credentials, as
// [keychain.Transport] does.
//
// A Client is not a credential store and does not use one. The Keyring can read
// docker config files (regcred.NodeDockerConfig).
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

// Client implements [remote.Client] for all repositories and registries. It is safe for
// concurrent use. It authenticates and retries, so oras-go's retry.Client and
// auth.Client are not needed.
//
// For the 1,000 most recently used repositories, it keeps using a credential until the
// registry rejects it.
type Client struct{ transports transportCache }

var (
	_ remote.Client     = (*Client)(nil)
	_ http.RoundTripper = (*Client)(nil)
)

// New returns a Client. The Keychain's Options apply. In particular, plain HTTP outside
// loopback needs [keychain.Options].Insecure in addition to Repository.PlainHTTP.
func New(keys *keychain.Keychain) *Client {
	return &Client{transportCache{keys: keys, byTarget: map[target]*cachedTransport{}}}
}

// Do implements [remote.Client]. It follows at most ten redirects and sends no credential
// to another host. Its errors omit the query parameters of redirect URLs, which may be
// signatures.
//
// If no credential was found because a provider failed, the error wraps a
// [*regcred.LookupError]. If the registry rejected every credential, the response contains
// a message for each credential. oras-go returns these messages as an
// errcode.ErrorResponse.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	resp, err := (&http.Client{Transport: c}).Do(req)
	if e, ok := errors.AsType[*url.Error](err); ok {
		return nil, &url.Error{Op: e.Op, URL: redactQuery(e.URL), Err: e.Err}
	}
	return resp, err
}

// RoundTrip implements [http.RoundTripper], for APIs that take an [http.Client] or
// an auth.Client, such as Helm's library:
//
//	registry.NewClient(registry.ClientOptHTTPClient(&http.Client{Transport: client}))
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) {
	t, err := c.transports.forRequest(originalRequest(req))
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
	replaceResponseRequest(resp, req)
	return resp, nil
}

// originalRequest returns the request before any redirects. A redirect target may look like a
// different repository, but must not receive that repository's credentials.
func originalRequest(req *http.Request) *http.Request {
	for req.Response != nil && req.Response.Request != nil {
		req = req.Response.Request
	}
	return req
}

// replaceResponseRequest sets resp.Request to req, because the request that was actually
// sent contains the password. In an error response after a redirect, it also redacts the
// query parameters of the URL, which may be a signature.
func replaceResponseRequest(resp *http.Response, req *http.Request) {
	resp.Request = req
	if resp.StatusCode >= http.StatusBadRequest && req.Response != nil && req.URL.RawQuery != "" {
		resp.Request = req.Clone(req.Context())
		resp.Request.URL.RawQuery = scrub.Mask
	}
}

// redactQuery redacts the query parameters of a URL.
func redactQuery(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.RawQuery == "" {
		return address
	}
	u.RawQuery = scrub.Mask
	return u.String()
}
