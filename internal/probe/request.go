// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package probe

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/regcred/regcred/internal/login"
	"github.com/regcred/regcred/internal/remote"
)

// acceptManifests lists the media types that runtimes accept.
var acceptManifests = strings.Join([]string{
	string(types.OCIImageIndex), string(types.OCIManifestSchema1),
	string(types.DockerManifestList), string(types.DockerManifestSchema2),
}, ", ")

// newHTTPClients creates the HTTP clients once the scheme is known.
func (a *session) newHTTPClients() error {
	reg, err := name.NewRegistry(a.base.Host, name.WeakValidation)
	if err != nil {
		return err
	}
	target, err := login.NewTarget(reg, "repository:"+a.hop.Repository+":pull", a.base.Scheme == "http")
	if err != nil {
		return err
	}
	a.tokens = &tokenRecorder{inner: a.newTransport()}
	a.registry = &login.Registry{
		Target: target, Runtime: login.NewRuntime(a.Runtime.Name), Secrets: &login.Secrets{}, Transport: a.tokens,
		IdleTimeout: 2 * a.stepTimeout(), ResponseTimeout: 2 * a.stepTimeout(), // longer than a step's timeout
		Retry: login.RetryOptions{Attempts: 1},
	}
	return nil
}

func (a *session) newTransport() *http.Transport {
	return &http.Transport{
		Proxy: func(req *http.Request) (*url.URL, error) {
			proxy, _ := proxyForURL(a.Runtime.Environ, req.URL)
			return proxy, nil
		},
		DialContext:            a.dialKnownAddr,
		TLSClientConfig:        &tls.Config{RootCAs: a.pool, Certificates: a.certs, InsecureSkipVerify: a.hop.SkipVerify},
		MaxResponseHeaderBytes: maxHeaderSize,
		OnProxyConnectResponse: remote.OnProxyConnectResponse,
	}
}

// dialKnownAddr connects to the address that was reached before, so that a later DNS
// lookup cannot change it.
func (a *session) dialKnownAddr(ctx context.Context, network, addr string) (net.Conn, error) {
	if at, ok := a.dialed[addr]; ok {
		addr = at.String()
	}
	dialer := net.Dialer{Timeout: a.stepTimeout(), Control: func(_, addr string, _ syscall.RawConn) error {
		if at, err := netip.ParseAddrPort(addr); err != nil || isForbiddenAddr(at.Addr()) {
			return errForbiddenAddr
		}
		return nil
	}}
	return dialer.DialContext(ctx, network, addr)
}

// sendRequest sends one request and reads at most the given number of bytes of the
// body.
func (a *session) sendRequest(ctx context.Context, rt http.RoundTripper, method string, u *url.URL, most int64) (serverResponse, error) {
	ctx, cancel := a.withStepTimeout(ctx)
	defer cancel()
	got := serverResponse{}
	client := &http.Client{Transport: rt, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		got.redirects = append(got.redirects, req.URL.Host)
		if len(via) > maxRedirects {
			return fmt.Errorf("stopped after %d redirects", maxRedirects)
		}
		return nil
	}}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return got, err
	}
	req.Header.Set("Accept", acceptManifests)
	if got.Response, err = client.Do(req); err != nil {
		return got, a.timeoutCause(ctx, err)
	}
	defer got.Body.Close()
	if got.body, err = io.ReadAll(io.LimitReader(got.Body, most)); err != nil {
		err = a.timeoutCause(ctx, err)
	}
	return got, err
}

func (a *session) manifestURL() *url.URL { return a.contentURL("manifests", a.Image.tagOrDigest()) }

// contentURL returns the URL of a manifest or blob of the image's repository.
func (a *session) contentURL(kind, id string) *url.URL {
	u := a.base.JoinPath(a.hop.Repository, kind, id)
	if a.Image.Host != "" && !a.hop.IsOrigin && a.Runtime.Name == "containerd" {
		u.RawQuery = url.Values{login.NamespaceParam: {a.Image.Host}}.Encode()
	}
	return u
}

// Limits for data from a server, in bytes or items.
const (
	maxHeaderSize    = 64 << 10
	maxTokenResponse = 256 << 10 // token response
	maxOtherResponse = 8 << 10   // other response, of which only the start is read
	maxManifestSize  = 4 << 20   // same as in package pull
	maxRedirects     = 5
)

// serverResponse is a server's response and the part of its body that was read.
type serverResponse struct {
	*http.Response
	body      []byte
	redirects []string // hosts that redirects led to
}

// registryError returns the error that the registry reported.
func (g serverResponse) registryError() error {
	resp := *g.Response
	resp.Body = io.NopCloser(bytes.NewReader(g.body))
	return transport.CheckError(&resp, http.StatusOK)
}

// isWebPage reports whether a response is a web page.
func isWebPage(got serverResponse) bool {
	kind, _, _ := mime.ParseMediaType(got.Header.Get("Content-Type"))
	return kind == "text/html" || kind == "application/xhtml+xml"
}

// isTLSPortResponse reports whether a response is what common TLS servers send to a
// plain HTTP request.
func isTLSPortResponse(got serverResponse) bool {
	body := strings.ToLower(string(got.body))
	return got.StatusCode == http.StatusBadRequest && (strings.Contains(body, "http request to an https server") ||
		strings.Contains(body, "plain http request was sent to https port") || strings.Contains(body, "speaking plain http to an ssl-enabled server port"))
}

// isRegistryPing reports whether a response to /v2/ is from a registry (distribution
// specification, "Determining Support").
func isRegistryPing(got serverResponse) bool {
	if got.Header.Get("Docker-Distribution-Api-Version") != "" {
		return true
	}
	if isWebPage(got) || len(got.redirects) > 0 && got.StatusCode != http.StatusOK && got.StatusCode != http.StatusUnauthorized {
		return false
	}
	var said struct {
		Errors []struct {
			Code string `json:"code"`
		} `json:"errors"`
	}
	json.Unmarshal(got.body, &said)
	return got.StatusCode == http.StatusOK || got.StatusCode == http.StatusUnauthorized && got.Header.Get("WWW-Authenticate") != "" || len(said.Errors) > 0
}
