// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Proxy is [http.ProxyFromEnvironment] but for metadata servers, which a proxy
// cannot reach, and which it must not see: what they answer is the node's
// identity. Go itself exempts loopback alone. Its error does not quote the
// address, which may hold a password.
func Proxy(req *http.Request) (*url.URL, error) {
	if IsMetadata(req.URL.Hostname()) {
		return nil, nil
	}
	proxy, err := http.ProxyFromEnvironment(req)
	if err != nil {
		return nil, errProxyAddress
	}
	return proxy, nil
}

var errProxyAddress = permanent{errors.New("the proxy address is not a URL; check HTTPS_PROXY and HTTP_PROXY")}

// ProxyError is what a proxy said in place of connecting.
type ProxyError struct {
	Status int
}

// Error names the status.
func (e *ProxyError) Error() string {
	return "the proxy refused the connection: " + statusText(e.Status)
}

// proxyAnswer is [http.Transport.OnProxyConnectResponse].
func proxyAnswer(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode != http.StatusOK {
		return &ProxyError{answer.StatusCode}
	}
	return nil
}

// metadataNets is where clouds have metadata servers beside the link-local
// addresses: AWS and Google over IPv6.
func metadataNets() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("fd00:ec2::/32"), netip.MustParsePrefix("fd20:ce::/32")}
}

// IsMetadata reports whether a host, without a port, is the metadata server of
// a cloud, or an address at which only such a server may be.
func IsMetadata(host string) bool {
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
		slices.ContainsFunc(metadataNets(), func(p netip.Prefix) bool { return p.Contains(addr) })
}
