// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/regcred/regcred/internal/remote"
)

// The managed identity of a node and a client certificate are asked for with
// the SDK of Azure: the former looks different on every kind of host, the
// latter signs. What the SDK says in errors, which is the body of an answer
// and more, is replaced by what a watcher saw.

// managedToken gets the token of a managed identity of the node.
func (s *session) managedToken(ctx context.Context, id string) (string, error) {
	w := s.watch(ctx, "get a token of the node's managed identity")
	w.imds = s.opts.Getenv("AZURE_POD_IDENTITY_AUTHORITY_HOST")
	// For claims the SDK bypasses the tokens that it keeps for the life of
	// the process; it sends them nowhere. How long an answer is kept is for
	// the caller to say.
	request := policy.TokenRequestOptions{Scopes: []string{resource + "/.default"}, Claims: "{}"}
	options := &azidentity.ManagedIdentityCredentialOptions{ClientOptions: w.options(s.localTransport())}
	advice := "check that the node has a system-assigned identity, or name another one with userAssignedIdentityID in the cloud configuration"
	if id != "" {
		options.ID = identityID(id)
		advice = fmt.Sprintf("check that identity %.200q, userAssignedIdentityID in the cloud configuration, is assigned to the node", id)
	}
	credential, err := azidentity.NewManagedIdentityCredential(options)
	if err != nil {
		return "", hint(fmt.Errorf("%s: %w", w.step, err), advice)
	}
	token, err := credential.GetToken(ctx, request)
	return w.result(token, err, advice)
}

// certificateToken proves the identity by a client certificate.
func (s *session) certificateToken(ctx context.Context, cfg *config) (string, error) {
	env, err := s.environment(ctx)
	if err != nil {
		return "", err
	}
	if _, err := s.tokenURL(env, cfg.TenantID); err != nil {
		return "", err
	}
	data, err := readFile(cfg.ClientCertPath)
	if err != nil {
		return "", fmt.Errorf("aadClientCertPath %q: %w", cfg.ClientCertPath, err)
	}
	certs, key, err := azidentity.ParseCertificates(data, []byte(cfg.ClientCertPassword))
	if err != nil {
		return "", fmt.Errorf("aadClientCertPath %q: it is not a certificate with an RSA key, in PEM or PKCS#12, that aadClientCertPassword opens", cfg.ClientCertPath)
	}
	w := s.watch(ctx, "get a token of Microsoft Entra ID")
	options := &azidentity.ClientCertificateCredentialOptions{ClientOptions: w.options(s.client.Transport), DisableInstanceDiscovery: true}
	options.Cloud = cloud.Configuration{ActiveDirectoryAuthorityHost: env.authority}
	credential, err := azidentity.NewClientCertificateCredential(cfg.TenantID, cfg.ClientID, certs, key, options)
	if err != nil {
		return "", fmt.Errorf("aadClientCertPath %q: %w", cfg.ClientCertPath, err)
	}
	token, err := credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{resource + "/.default"}})
	advice := "check tenantId, aadClientId and the certificate of that application"
	if err != nil && w.last.Err != nil && w.last.Status == 0 {
		advice = unreachable
	}
	return w.result(token, err, advice)
}

// identityID tells the two kinds of names apart, as upstream does.
func identityID(id string) azidentity.ManagedIDKind {
	if strings.Contains(strings.ToLower(id), "/subscriptions/") {
		return azidentity.ResourceID(id)
	}
	return azidentity.ClientID(id)
}

// localTransport is for endpoints on the node or the link, which no proxy
// reaches or may see.
func (s *session) localTransport() http.RoundTripper {
	if s.opts.Transport != nil {
		return s.opts.Transport
	}
	transport := remote.Base()
	transport.Proxy = nil
	transport.DisableKeepAlives = true // it is asked once, and not closed
	return transport
}

// watcher sees every attempt of the SDK, on its way to the transport, keeps
// what went wrong, and keeps answers that are none from the SDK's errors.
type watcher struct {
	ctx       context.Context
	step      string
	userAgent string
	timeout   time.Duration
	backoff   time.Duration
	imds      string // scheme and host in place of the metadata server's; "" leaves it
	pinned    bool   // the SDK wants a plain transport, to pin a certificate

	last        remote.Error // the last attempt; it failed if it has a status or an error
	unreachable int
}

func (s *session) watch(ctx context.Context, step string) *watcher {
	w := &watcher{ctx: ctx, step: step, userAgent: s.tokenUserAgent(), timeout: s.opts.Timeout, backoff: s.opts.Backoff}
	w.pinned = s.opts.Getenv("IDENTITY_SERVER_THUMBPRINT") != ""
	if w.timeout <= 0 {
		w.timeout = 14 * time.Second // as remote.Client
	}
	if w.backoff <= 0 {
		w.backoff = 250 * time.Millisecond
	}
	return w
}

// options bound the SDK: five repetitions at most, over some 15 seconds, and
// two if there is nobody to ask, which is over in two.
func (w *watcher) options(transport http.RoundTripper) azcore.ClientOptions {
	if plain, ok := transport.(*http.Transport); ok && w.pinned {
		transport = boundedConns(plain)
	} else {
		transport = bounded{transport}
	}
	return azcore.ClientOptions{
		Transport: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		PerRetryPolicies: []policy.Policy{w},
		Retry: policy.RetryOptions{
			MaxRetries: 5, RetryDelay: w.backoff, MaxRetryDelay: 20 * time.Second,
			TryTimeout: w.timeout, ShouldRetry: w.again,
		},
	}
}

// Do implements policy.Policy.
func (w *watcher) Do(req *policy.Request) (*http.Response, error) {
	raw := req.Raw()
	raw.Header.Set("User-Agent", w.userAgent)
	if host, err := url.Parse(w.imds); err == nil && host.Host != "" && raw.URL.Host == "169.254.169.254" {
		raw.URL.Scheme, raw.URL.Host, raw.Host = host.Scheme, host.Host, ""
	}
	w.last = remote.Error{
		Step: w.step, Method: raw.Method, Attempts: w.last.Attempts + 1,
		Endpoint: remote.Endpoint(raw.URL.String()),
	}
	resp, err := req.Next()
	if err != nil {
		w.last.Err = w.cause(err)
		return resp, err
	}
	body, _ := io.ReadAll(resp.Body) // bounded; what is cut off has no code
	resp.Body.Close()
	switch {
	case resp.StatusCode != http.StatusOK:
		w.last.Refused(resp.StatusCode, resp.Header, body)
		body = nil // the SDK would quote it
	case !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")):
		body = nil // the SDK panics at a null
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// again says what may be otherwise the next time. A metadata server answers
// 404 and 410 while it is updated.
func (w *watcher) again(resp *http.Response, err error) bool {
	if err != nil {
		w.unreachable++
		return w.unreachable <= 2
	}
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusGone, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	}
	return resp.StatusCode >= 500
}

// cause is what happened to a request.
func (w *watcher) cause(err error) error {
	if w.ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %v", w.timeout) // of one attempt
	}
	if w.pinned && strings.Contains(err.Error(), "did not match IDENTITY_SERVER_THUMBPRINT") {
		return errors.New("its certificate is not that of IDENTITY_SERVER_THUMBPRINT")
	}
	return remote.Cause(w.ctx, err)
}

// result is the token, or what the watcher saw in its place.
func (w *watcher) result(token azcore.AccessToken, err error, advice string) (string, error) {
	var failed *azidentity.AuthenticationFailedError
	switch {
	case err == nil && token.Token != "":
		return token.Token, nil
	case w.last.Attempts == 0, w.last.Status == http.StatusUnauthorized && errors.As(err, &failed) && failed.RawResponse == nil:
		// There was no request, or none for a token: on Arc, the key that the
		// first answer names could not be read.
		return "", hint(fmt.Errorf("%s: %s", w.step, withoutQuotes(err.Error())), advice)
	case w.last.Err == nil && w.last.Status == 0:
		w.last.Err = errors.New("its answer holds no access_token")
	}
	return "", hint(&w.last, advice)
}

// withoutQuotes takes off what the SDK quotes of a header, and its advice.
func withoutQuotes(said string) string {
	for _, begin := range []string{". To troubleshoot, visit ", ", instead found: ", ", got "} {
		said, _, _ = strings.Cut(said, begin)
	}
	return said
}

// bounded cuts bodies off at remote.MaxBody.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(req)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, remote.MaxBody), resp.Body}
	}
	return resp, err
}

// boundedConns ends connections after remote.MaxBody, for where the SDK wants
// a plain transport. One connection is for one answer.
func boundedConns(plain *http.Transport) *http.Transport {
	transport := plain.Clone()
	transport.DisableKeepAlives, transport.DisableCompression = true, true
	dial := plain.DialContext
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &boundedConn{conn, remote.MaxBody}, nil
	}
	return transport
}

type boundedConn struct {
	net.Conn
	left int
}

func (c *boundedConn) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}
