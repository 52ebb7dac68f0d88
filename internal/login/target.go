// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"unicode"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/internal/remote"
)

// Target is a registry and the requested access.
type Target struct {
	Registry name.Registry
	Scope    string // scope of the token, such as "repository:team/app:pull"

	allowsPlainHTTP bool // plain HTTP is allowed
}

// NewTarget returns a target that allows plain HTTP for registries on loopback, and for
// other registries if insecure is set.
func NewTarget(host name.Registry, scope string, insecure bool) (Target, error) {
	t := Target{Registry: host, Scope: scope}
	// go-containerregistry would also use plain HTTP for private addresses and *.localhost, but
	// checkURL rejects that.
	t.allowsPlainHTTP = insecure || registry.IsLoopback(stripPort(host.RegistryStr()))
	if t.allowsPlainHTTP {
		var err error
		if t.Registry, err = name.NewRegistry(host.RegistryStr(), name.Insecure); err != nil {
			return Target{}, err
		}
	}
	return t, nil
}

// Host returns the registry's host, with a port if its name has one.
func (t Target) Host() string { return t.Registry.RegistryStr() }

// IsToRegistry reports whether a request is sent to the registry, and not to a host to
// which it redirects. It returns false for a request whose Host header contains another
// host.
func (t Target) IsToRegistry(req *http.Request) bool {
	scheme := req.URL.Scheme
	return t.matchesHost(scheme, req.URL.Host) && (req.Host == "" || t.matchesHost(scheme, req.Host))
}

// matchesHost reports whether host is the registry's host or, for Docker Hub, the name
// of its API.
func (t Target) matchesHost(scheme, host string) bool {
	if t.Host() == name.DefaultRegistry && host == registry.DockerHubServer {
		return true
	}
	return strings.EqualFold(hostPort(scheme, host), hostPort(scheme, t.Host()))
}

// hostPort returns host:port.
func hostPort(scheme, host string) string {
	u := url.URL{Host: host}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"http": "80"}[scheme], "443"))
}

// stripPort removes the port and, for an IPv6 address, the brackets.
func stripPort(hostport string) string {
	return (&url.URL{Host: hostport}).Hostname()
}

// checkURL rejects requests that must not be sent. It is called for every request,
// including redirects and requests to token servers. allowPlain allows plain HTTP to any host.
func (t Target) checkURL(u *url.URL, allowPlain bool) error {
	host := u.Hostname()
	home := stripPort(t.Host())
	own := host == home || registry.IsLoopback(host) && registry.IsLoopback(home)
	switch {
	case u.Scheme == "http" && !allowPlain && !(t.allowsPlainHTTP && own):
		return fmt.Errorf("refused plain HTTP to %q: %w", net.JoinHostPort(host, cmp.Or(u.Port(), "80")), ErrPlainHTTPNotAllowed)
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("refused a URL with the unsupported scheme %q", u.Scheme)
	case strings.ContainsFunc(host, func(r rune) bool { return r > unicode.MaxASCII }):
		// With HTTP/2, net/http would look up the connection under a different name
		// than the one it stored, and open new connections until the timeout.
		return fmt.Errorf("refused host %q: host names in URLs must be ASCII (xn--…)", host)
	case !own && isLocalOrMetadata(host):
		return fmt.Errorf("refused: registry %q refers to %q, a loopback or link-local address (such as a metadata server)", t.Host(), host)
	}
	return nil
}

// isLocalOrMetadata reports whether a host is a loopback, link-local, multicast or unspecified
// address, or a metadata server. It also returns true if the last label begins with a digit. No DNS
// name has such a label, but some resolvers accept addresses in this form (2130706433, 0x7f.1).
func isLocalOrMetadata(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.WithZone("").Unmap()
		return ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsUnspecified() || ip.IsMulticast() || remote.IsMetadataHost(host)
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	return last == "localhost" || remote.IsMetadataHost(host) || last == "" || last[0] >= '0' && last[0] <= '9'
}
