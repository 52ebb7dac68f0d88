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

	"github.com/regcred/regcred/internal/remote"
)

// Target is a registry, and what is asked of it.
type Target struct {
	Registry name.Registry
	Scope    string // of the token, as in "repository:team/app:pull"

	plain bool // plain HTTP is allowed
}

// NewTarget allows plain HTTP to registries on loopback, and to others if it is
// insecure.
func NewTarget(registry name.Registry, scope string, insecure bool) (Target, error) {
	t := Target{Registry: registry, Scope: scope}
	// go-containerregistry would also speak plain HTTP to private addresses
	// and *.localhost; the wire refuses that.
	t.plain = insecure || isLoopback(hostname(registry.RegistryStr()))
	if t.plain {
		var err error
		if t.Registry, err = name.NewRegistry(registry.RegistryStr(), name.Insecure); err != nil {
			return Target{}, err
		}
	}
	return t, nil
}

// Host is that of the registry, with a port if its name has one.
func (t Target) Host() string { return t.Registry.RegistryStr() }

// Owns tells requests to the registry from those to where it redirects. One
// that goes there but names another host in its header is for that.
func (t Target) Owns(req *http.Request) bool {
	scheme := req.URL.Scheme
	return t.isAt(scheme, req.URL.Host) && (req.Host == "" || t.isAt(scheme, req.Host))
}

// isAt knows also the name that Docker Hub's API has beside its own.
func (t Target) isAt(scheme, host string) bool {
	if t.Host() == name.DefaultRegistry && host == "registry-1.docker.io" {
		return true
	}
	return strings.EqualFold(address(scheme, host), address(scheme, t.Host()))
}

// address is host:port.
func address(scheme, host string) string {
	u := url.URL{Scheme: scheme, Host: host}
	port := u.Port()
	switch {
	case port != "":
	case scheme == "http":
		port = "80"
	default:
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// hostname drops the port and the brackets of an IPv6 address.
func hostname(hostport string) string {
	return (&url.URL{Host: hostport}).Hostname()
}

// isLoopback reports whether a host is this machine by its name alone.
// Other names that resolve to loopback do not count: the resolver may lie.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// checkURL says whether a request may be made at all. It sees every request,
// those after redirects and to token servers included.
func (t Target) checkURL(u *url.URL) error {
	host := u.Hostname()
	registry := hostname(t.Host())
	own := host == registry || isLoopback(host) && isLoopback(registry)
	switch {
	case u.Scheme == "http" && !(t.plain && own):
		return fmt.Errorf("refused plain HTTP to %q: %w", net.JoinHostPort(host, cmp.Or(u.Port(), "80")), ErrPlainHTTP)
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("refused a URL with the unsupported scheme %q", u.Scheme)
	case strings.ContainsFunc(host, func(r rune) bool { return r > unicode.MaxASCII }):
		// Over HTTP/2, net/http would look for its connection by another name
		// than it made it by, and make new ones until the time is over.
		return fmt.Errorf("refused host %q: host names in URLs must be ASCII (xn--…)", host)
	case !own && isThisMachine(host):
		return fmt.Errorf("refused: registry %q refers to %q, a loopback or link-local address (such as a metadata server)", t.Host(), host)
	}
	return nil
}

// isThisMachine reports whether a host is a loopback, link-local or
// unspecified address, that of a metadata server, or an address in a form that only
// some resolvers understand (2130706433, 0x7f.1): no name ends in a label that
// begins with a digit.
func isThisMachine(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.WithZone("").Unmap()
		return ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsUnspecified() || ip.IsMulticast() || remote.IsMetadata(host)
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	return last == "localhost" || remote.IsMetadata(host) || last == "" || last[0] >= '0' && last[0] <= '9'
}
