// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// maxTokenResponse limits a token server's response, in bytes.
const maxTokenResponse = 1 << 20

// token is a Bearer token.
type token struct {
	value   string
	expires time.Time // zero if it does not expire

	redirectedTo string // host to which the token server redirected, and to which the credential was not sent; "" without a redirect
}

// errRedirected is returned if a response to a request without the credential is about that request only.
type errRedirected struct {
	host string
	err  error // not unwrapped, because its status is not about the credential
}

func (e *errRedirected) Error() string {
	return fmt.Sprintf("the token server redirects to %q, where the credential was not sent: %v", e.host, e.err)
}

// tokenRequest describes a request to a token server.
type tokenRequest struct {
	realm              string
	service            string
	scopes             []string
	username, password string
}

// postFallbackStatuses lists the statuses after which containerd repeats a POST as a GET.
var postFallbackStatuses = []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusMethodNotAllowed}

// errNoRealm is returned for a Bearer challenge that names no token server.
var errNoRealm = errors.New("the registry's Bearer challenge has no realm, the address of the token server")

// fetchToken requests a token as the runtime does.
func (r *Registry) fetchToken(ctx context.Context, c *Challenge, scopes []string, username, password string) (token, error) {
	realm, ok := c.Parameters["realm"]
	if !ok {
		return token{}, errNoRealm
	}
	u, err := url.Parse(realm)
	if err != nil {
		return token{}, fmt.Errorf("the realm in the registry's Bearer challenge is not a URL: %w", err)
	}
	t := tokenRequest{u.String(), c.Parameters["service"], scopes, username, password}
	if r.Runtime == Containerd && password != "" {
		got, err := r.doTokenRequest(ctx, t.newPostRequest)
		status := StatusCode(err)
		if moved, ok := errors.AsType[*errRedirected](err); ok {
			status = StatusCode(moved.err)
		}
		if err == nil || !slices.Contains(postFallbackStatuses, status) {
			return got, err
		}
	}
	return r.doTokenRequest(ctx, func(ctx context.Context) (*http.Request, error) { return t.newGetRequest(ctx, r.Runtime) })
}

// newPostRequest returns the request of containerd for OAuth 2.
func (t tokenRequest) newPostRequest(ctx context.Context) (*http.Request, error) {
	form := url.Values{
		"service": {t.service}, "client_id": {"containerd-client"},
		"grant_type": {"password"}, "username": {t.username}, "password": {t.password},
	}
	if len(t.scopes) > 0 {
		form.Set("scope", strings.Join(t.scopes, " "))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.realm, strings.NewReader(form.Encode()))
	if err == nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	}
	return req, err
}

// newGetRequest returns the request that all token servers support.
func (t tokenRequest) newGetRequest(ctx context.Context, rt Runtime) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.realm, nil)
	if err != nil {
		return nil, err
	}
	query := req.URL.Query()
	if rt == ContainersImage && t.username != "" {
		query.Add("account", t.username)
	}
	if t.service != "" {
		query.Add("service", t.service)
	}
	for _, s := range t.scopes {
		query.Add("scope", s)
	}
	req.URL.RawQuery = query.Encode()
	if t.password != "" {
		req.SetBasicAuth(t.username, t.password)
	}
	return req, nil
}

// doTokenRequest sends a request to a token server and returns the token.
func (r *Registry) doTokenRequest(ctx context.Context, newRequest func(context.Context) (*http.Request, error)) (token, error) {
	req, err := newRequest(ctx)
	if err != nil {
		return token{}, err
	}
	req.Header.Set("User-Agent", userAgent)
	client := &http.Client{Transport: r.newTransport(true), CheckRedirect: checkTokenRedirect}
	resp, err := client.Do(req)
	if err != nil {
		return token{}, err
	}
	defer resp.Body.Close()
	redirectedTo := ""
	if last := resp.Request.URL; !sameServer(last, req.URL) && (req.Method == http.MethodPost || req.Header.Get("Authorization") != "") {
		redirectedTo = last.Host
	}
	if !r.Runtime.isTokenStatus(resp.StatusCode) {
		err := transport.CheckError(resp)
		if redirectedTo != "" {
			err = &errRedirected{redirectedTo, err}
		}
		return token{}, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxTokenResponse))
	r.Secrets.addTokens(body)
	if err != nil && r.Runtime == ContainersImage {
		return token{}, err
	}
	got, invalid := r.Runtime.decodeToken(req.Method, body)
	if invalid != nil {
		return token{}, cmp.Or(err, invalid)
	}
	got.redirectedTo = redirectedTo
	return got, nil // even if the response broke off after the JSON value
}

func (rt Runtime) isTokenStatus(status int) bool {
	if rt == ContainersImage {
		return status == http.StatusOK || status == http.StatusPartialContent
	}
	return status >= 200 && status < 400
}

// checkTokenRedirect lets no credential follow a redirect to another host or scheme.
func checkTokenRedirect(req *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case len(via) >= 10:
		return errors.New("stopped after 10 redirects")
	case sameServer(req.URL, first.URL):
		return nil
	case req.Method == http.MethodPost:
		return fmt.Errorf("refused to send the password to %q, to which the token server redirects", req.URL.Host)
	}
	req.Header.Del("Authorization") // net/http keeps it for other ports, other schemes and subdomains
	return nil
}

func sameServer(a, b *url.URL) bool { return a.Host == b.Host && a.Scheme == b.Scheme }

// tokenFields are the fields of every response with a token. A field of another type is an error,
// even if the runtime does not use it.
type tokenFields struct {
	AccessToken string   `json:"access_token"`
	ExpiresIn   int      `json:"expires_in"`
	IssuedAt    issuedAt `json:"issued_at"`
}

// issuedAt checks the format of a time.
type issuedAt struct{ time.Time }

func (t *issuedAt) UnmarshalJSON(value []byte) error {
	if err := t.Time.UnmarshalJSON(value); err != nil {
		return errors.New("issued_at is not a time in RFC 3339 format, such as 2006-01-02T15:04:05Z")
	}
	return nil
}

// ErrBadToken is wrapped by errors about a successful response from which the runtime gets no token.
var ErrBadToken = errors.New("the container runtime cannot use the token server's response")

// decodeToken decodes the response to a request with the given method. Each runtime has its own fields.
func (rt Runtime) decodeToken(method string, body []byte) (token, error) {
	var get struct {
		tokenFields
		Token        string `json:"token"`
		RefreshToken string `json:"refresh_token"`
	}
	var post struct {
		tokenFields
		RefreshToken string `json:"refresh_token"`
		Scope        string `json:"scope"`
	}
	var containersImage struct {
		tokenFields
		Token string `json:"token"`
	}
	var lenient struct {
		AccessToken string `json:"access_token"`
		Token       string `json:"token"`
	}
	var value string
	var expiresIn int
	var err error
	decoder := json.NewDecoder(bytes.NewReader(body)) // ignores what follows the JSON value
	switch {
	case rt == ContainersImage:
		err = json.Unmarshal(body, &containersImage)
		value, expiresIn = cmp.Or(containersImage.Token, containersImage.AccessToken), max(containersImage.ExpiresIn, 60)
	case rt == GoContainerregistry:
		err = decoder.Decode(&lenient)
		value = cmp.Or(lenient.AccessToken, lenient.Token)
	case method == http.MethodPost:
		err = decoder.Decode(&post)
		value, expiresIn = post.AccessToken, post.ExpiresIn
	default:
		err = decoder.Decode(&get)
		value, expiresIn = cmp.Or(get.AccessToken, get.Token), get.ExpiresIn
	}
	switch wrong := new(json.UnmarshalTypeError); {
	case errors.As(err, &wrong):
		return token{}, fmt.Errorf("%w: %s is a JSON %s, want %s", ErrBadToken, cmp.Or(wrong.Field, "the response"), wrong.Value, wrong.Type.Kind())
	case err != nil:
		return token{}, fmt.Errorf("%w: %w", ErrBadToken, err)
	case value == "" && rt != ContainersImage:
		return token{}, fmt.Errorf("%w: it contains no token", ErrBadToken)
	}
	t := token{value: value}
	if expiresIn > 0 {
		t.expires = time.Now().Add(time.Duration(min(expiresIn, 1<<30)) * time.Second)
	}
	return t, nil
}
