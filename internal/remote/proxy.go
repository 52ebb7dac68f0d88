// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Proxy is like [http.ProxyFromEnvironment], but never returns a proxy for a metadata server.
// A proxy cannot reach the node's metadata server, and must not see the node's identity. Go
// excludes only loopback addresses. Errors do not quote the proxy's address, which may
// contain a password.
func Proxy(req *http.Request) (*url.URL, error) {
	if IsMetadataHost(req.URL.Hostname()) {
		return nil, nil
	}
	proxy, err := http.ProxyFromEnvironment(req)
	if err != nil {
		return nil, errProxyAddress
	}
	return proxy, nil
}

var errProxyAddress = permanentError{errors.New("the proxy address is not a URL; check HTTPS_PROXY and HTTP_PROXY")}

// ProxyError is returned if a proxy refuses to connect. It contains the proxy's status.
type ProxyError struct {
	Status int
}

// Error returns the status.
func (e *ProxyError) Error() string {
	return "the proxy refused the connection: " + cmp.Or(http.StatusText(e.Status), fmt.Sprintf("status %d", e.Status))
}

// OnProxyConnectResponse implements [http.Transport.OnProxyConnectResponse]. Without it, the error
// contains the proxy's status line, in which a proxy may return the password that it received.
func OnProxyConnectResponse(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode != http.StatusOK {
		return &ProxyError{answer.StatusCode}
	}
	return nil
}

// NewDefaultTransport returns a copy of [http.DefaultTransport] with [OnProxyConnectResponse]. It
// returns the default itself if the program replaced it with another type.
func NewDefaultTransport() http.RoundTripper {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t := base.Clone()
	t.OnProxyConnectResponse = OnProxyConnectResponse
	return t
}

// metadataNetworks returns the networks of cloud metadata servers that are not link-local.
// These are the IPv6 addresses of AWS and Google.
func metadataNetworks() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("fd00:ec2::/32"), netip.MustParsePrefix("fd20:ce::/32")}
}

// IsMetadataHost reports whether a host, without a port, is a cloud metadata server or an
// address reserved for one.
func IsMetadataHost(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "metadata.google.internal" || host == "metadata" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	addr = addr.Unmap().WithZone("")
	return addr.IsLinkLocalUnicast() ||
		slices.ContainsFunc(metadataNetworks(), func(p netip.Prefix) bool { return p.Contains(addr) })
}
