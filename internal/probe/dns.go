// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/remote"
)

const (
	resolvConfPath = "/etc/resolv.conf"
	hostsFilePath  = "/etc/hosts"

	maxResolverFileSize = 1 << 20 // maximum size of each of these files in bytes
	maxAddresses        = 16      // maximum number of addresses of a name
)

// resolverConfig holds the node's DNS configuration.
type resolverConfig struct {
	servers []string
	search  []string
	ndots   int
}

// readResolverConfig reads the parts of resolv.conf(5) that are used in messages.
func readResolverConfig(ctx context.Context) resolverConfig {
	r := resolverConfig{ndots: 1}
	data, _ := regularfile.Read(ctx, resolvConfPath, maxResolverFileSize)
	for text := range strings.Lines(string(data)) {
		words := strings.Fields(text)
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "nameserver":
			r.servers = append(r.servers, words[1])
		case "search", "domain":
			r.search = words[1:]
		case "options":
			for _, option := range words[1:] {
				if n, ok := strings.CutPrefix(option, "ndots:"); ok {
					r.ndots, _ = strconv.Atoi(n)
				}
			}
		}
	}
	return r
}

func (r resolverConfig) String() string {
	if len(r.servers) == 0 {
		return resolvConfPath + " lists no nameserver"
	}
	return "nameserver " + strings.Join(r.servers, ", ") + " of " + resolvConfPath
}

// usesSearchFirst reports whether the search domains are tried before the name itself.
func (r resolverConfig) usesSearchFirst(host string) bool {
	return len(r.search) > 0 && !strings.HasSuffix(host, ".") && strings.Count(host, ".") < r.ndots
}

// hostsFileLine returns the number of the /etc/hosts line that contains a name, or 0.
func hostsFileLine(ctx context.Context, host string) int {
	data, _ := regularfile.Read(ctx, hostsFilePath, maxResolverFileSize)
	n := 0
	for text := range strings.Lines(string(data)) {
		n++
		text, _, _ = strings.Cut(text, "#")
		if words := strings.Fields(text); len(words) > 1 && slices.ContainsFunc(words[1:], func(w string) bool { return strings.EqualFold(w, host) }) {
			return n
		}
	}
	return 0
}

// resolveHost looks up the addresses of a host. It returns false if the host has no
// address that may be contacted.
func (a *session) resolveHost(ctx context.Context, host string) ([]netip.Addr, bool) {
	if remote.IsMetadataHost(host) {
		return nil, a.addFailedStep(StepDNS, "", "%s is the name or address of a metadata server, which regcred never contacts", host)
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return a.allowedAddrs(host, "it is an address", []netip.Addr{addr})
	}
	r := readResolverConfig(ctx)
	addrs, err := a.lookupAddrs(ctx, host)
	if err != nil {
		return nil, a.addDNSError(ctx, host, r, err)
	}
	where := r.String()
	if n := hostsFileLine(ctx, host); n > 0 {
		where = fmt.Sprintf("%s:%d", hostsFilePath, n)
	} else if r.usesSearchFirst(host) {
		own, err := a.lookupAddrs(ctx, host+".")
		if err != nil || !slices.ContainsFunc(own, func(addr netip.Addr) bool { return slices.Contains(addrs, addr) }) {
			a.addStep(StepDNS, finding.SeverityWarning, fmt.Sprintf("set options ndots:%d in %s, or use the fully qualified name", strings.Count(host, "."), resolvConfPath),
				"%s was found in a search domain (%s); with ndots:%d, search domains are tried before the name itself", host, strings.Join(r.search, ", "), r.ndots)
		}
	}
	return a.allowedAddrs(host, where, addrs)
}

// lookupAddrs resolves a name as runtimes do, with Go's resolver, for IPv4 and IPv6.
func (a *session) lookupAddrs(ctx context.Context, host string) ([]netip.Addr, error) {
	ctx, cancel := a.withStepTimeout(ctx)
	defer cancel()
	addrs, err := (&net.Resolver{PreferGo: true}).LookupNetIP(ctx, "ip", host)
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs[:min(len(addrs), maxAddresses)], err
}

// allowedAddrs removes addresses that must not be contacted.
func (a *session) allowedAddrs(host, where string, addrs []netip.Addr) ([]netip.Addr, bool) {
	var fit []netip.Addr
	var names []string
	for _, addr := range addrs {
		names = append(names, addr.String())
		if !isForbiddenAddr(addr) {
			fit = append(fit, addr)
		}
	}
	if a.messagePrefix == "" {
		a.result.Addresses = names
	}
	if len(fit) == 0 {
		return nil, a.addFailedStep(StepDNS, "check why the name resolves to this address: "+where, "%s is %s (%s): %v", host, strings.Join(names, ", "), where, errForbiddenAddr)
	}
	if _, err := netip.ParseAddr(strings.TrimSuffix(host, ".")); err != nil {
		a.addStep(StepDNS, finding.SeverityOK, "", "%s is %s (%s)", host, strings.Join(names, ", "), where)
	}
	return fit, true
}

// addDNSError reports a failed lookup. It distinguishes a name that does not exist from a
// nameserver that failed.
func (a *session) addDNSError(ctx context.Context, host string, r resolverConfig, err error) bool {
	dns, ok := errors.AsType[*net.DNSError](err)
	if ctx.Err() != nil {
		return a.addFailedStep(StepDNS, "", "%s: %v", host, ContextCause(ctx))
	}
	if !ok {
		return a.addFailedStep(StepDNS, "", "%s: %v", host, remote.Cause(ctx, err))
	}
	search := ""
	if len(r.search) > 0 {
		search = fmt.Sprintf("; search domains: %s, ndots:%d", strings.Join(r.search, ", "), r.ndots)
	}
	switch {
	case dns.IsNotFound && dns.Server == "" && strings.Trim(host, "0123456789.") == "":
		return a.addFailedStep(StepDNS, "write the address with four numbers, as in 127.0.0.1", "%s is neither an IP address nor a DNS name, so no nameserver was queried", host)
	case dns.IsNotFound && dns.Server == "":
		return a.addFailedStep(StepDNS, "check the spelling, and that the line \"hosts\" of /etc/nsswitch.conf contains dns", "%s is not in %s, and no nameserver was queried", host, hostsFilePath)
	case dns.IsNotFound:
		return a.addFailedStep(StepDNS, a.unknownHostFix(host), "%s does not exist or has no address, according to %s%s", host, r, search)
	case strings.Contains(dns.Err, "connection refused"):
		return a.addFailedStep(StepDNS, "run systemctl status systemd-resolved, or check the DNS server that should listen at this address", "%s: nothing is listening at the %s", host, r)
	case strings.Contains(dns.Err, "unreachable"):
		return a.addFailedStep(StepDNS, "check this machine's routes (ip route), or set another nameserver in "+resolvConfPath, "%s: there is no route to the %s", host, r)
	case dns.IsTimeout:
		return a.addFailedStep(StepDNS, "allow the node to reach its nameserver (UDP and TCP port 53), or set another one in "+resolvConfPath, "%s: no response within %s from %s", host, a.stepTimeout(), r)
	}
	return a.addFailedStep(StepDNS, "check the nameserver's log: its upstream server is unreachable, or the nameserver refuses queries from this node", "%s: the %s returns an error (SERVFAIL or REFUSED): %s", host, r, dns.Err)
}

// unknownHostFix returns the fix for a nonexistent name.
func (a *session) unknownHostFix(host string) string {
	switch {
	case strings.HasSuffix(strings.TrimSuffix(host, "."), ".cluster.local") || strings.HasSuffix(host, ".svc"):
		return "nodes do not use cluster DNS; use a host name that nodes can resolve, such as that of the service's load balancer"
	case !strings.Contains(host, "."):
		return "use the fully qualified name, or add the name to " + hostsFilePath
	}
	return "check the spelling; to resolve a private name, this node must use the private network's DNS (getent hosts " + host + ")"
}
