// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// NewTransport returns a transport for token endpoints: with short times to
// connect, HTTP/2, the proxy of [Proxy], and without connections that outlive
// a plugin.
func NewTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	return &http.Transport{
		Proxy: Proxy,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, addr)
		},
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     10 * time.Second,
		MaxIdleConns:        4,
		ForceAttemptHTTP2:   true,
	}
}

// Proxy is [http.ProxyFromEnvironment] but for metadata servers, which a proxy
// cannot reach, and which it must not see: what they answer is the node's
// identity. Go itself exempts loopback alone.
func Proxy(req *http.Request) (*url.URL, error) {
	if IsMetadata(req.URL.Hostname()) {
		return nil, nil
	}
	return http.ProxyFromEnvironment(req)
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
