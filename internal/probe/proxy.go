// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package probe

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/regcred/regcred/finding"
)

// openConnection opens a connection for the first request to a URL, through the
// runtime's proxy if one is set.
func (a *session) openConnection(ctx context.Context, u *url.URL) bool {
	proxy, variable := proxyForURL(a.Runtime.Environ, u)
	if name := invalidProxyVariable(a.Runtime.Environ, u); name != "" {
		a.addStep(StepProxy, finding.SeverityWarning, "set it to http://HOST:PORT", "%s in the environment of %s is not a proxy address and is ignored", name, a.environmentOwner())
	}
	to := u
	if proxy != nil {
		to = proxy
		if a.messagePrefix == "" {
			a.result.Proxy = hostPort(proxy)
		}
		a.addStep(StepProxy, finding.SeverityOK, "", "%s is reached through the proxy %s (%s in the environment of %s)", u.Hostname(), hostPort(proxy), variable, a.environmentOwner())
		a.proxyErrorFix = fmt.Sprintf("check the proxy %s, set by %s in the environment of %s", hostPort(proxy), variable, a.environmentOwner())
	}
	conn, ok := a.connectTo(ctx, to)
	a.proxyErrorFix = ""
	if !ok {
		return false
	}
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	if proxy != nil {
		if conn, ok = a.connectThrough(ctx, conn, proxy, u); !ok {
			return false
		}
		if conn == nil {
			return true
		}
	}
	return u.Scheme != "https" || a.verifyHandshake(ctx, conn, u, proxy != nil)
}

// connectThrough connects to u through a proxy with the CONNECT method. It returns a nil
// connection if the runtime would not use CONNECT, which is the case for plain HTTP URLs and
// SOCKS proxies.
func (a *session) connectThrough(ctx context.Context, conn net.Conn, proxy, u *url.URL) (net.Conn, bool) {
	ctx, cancel := a.withStepTimeout(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if proxy.Scheme == "https" {
		secured, err := a.handshakeUnverified(ctx, conn, proxy, nil)
		if err != nil {
			return conn, a.addFailedStep(StepProxy, "check that the proxy supports TLS, because its address starts with https", "TLS connection to the proxy %s failed: %v", hostPort(proxy), a.timeoutCause(ctx, err))
		}
		// The proxy receives a password, so its certificate must be valid, too. Go applies
		// skip_verify to both the proxy and the registry.
		if problems := a.chainProblems(secured.ConnectionState().PeerCertificates, proxy.Hostname()); problems != nil && !a.hop.SkipVerify {
			return conn, a.addFailedStep(StepProxy, problems[0].fix, "TLS connection to the proxy %s failed: %s", hostPort(proxy), describeProblems(problems))
		}
		conn = secured
	}
	// Go treats every other scheme as an HTTP proxy.
	if u.Scheme != "https" || strings.HasPrefix(proxy.Scheme, "socks5") {
		conn.Close()
		return nil, true
	}
	status, err := sendConnect(conn, proxy, hostPort(u))
	switch {
	case err != nil && ctx.Err() != nil:
		return conn, a.addFailedStep(StepProxy, "check the proxy", "the proxy %s: %v", hostPort(proxy), ContextCause(ctx))
	case err != nil:
		return conn, a.addFailedStep(StepProxy, "check that an HTTP proxy listens at this address", "the proxy %s does not send a valid HTTP proxy response", hostPort(proxy))
	case status != http.StatusOK:
		return conn, a.addFailedStep(StepProxy, a.proxyFix(status, u), "the proxy %s refuses to connect to %s: HTTP %d %s", hostPort(proxy), hostPort(u), status, http.StatusText(status))
	}
	return conn, true
}

// sendConnect sends CONNECT (RFC 9110, section 9.3.6) with the user and password from
// the proxy's URL.
func sendConnect(conn net.Conn, proxy *url.URL, target string) (status int, err error) {
	auth := ""
	if proxy.User != nil {
		password, _ := proxy.User.Password()
		auth = "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(proxy.User.Username()+":"+password)) + "\r\n"
	}
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", target, target, auth); err != nil {
		return 0, err
	}
	// The server sends nothing before the handshake, so no buffered data is lost.
	resp, err := http.ReadResponse(bufio.NewReader(io.LimitReader(conn, maxHeaderSize)), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}

// proxyFix returns the fix for a connection that the proxy refused.
func (a *session) proxyFix(status int, u *url.URL) string {
	switch status {
	case http.StatusProxyAuthRequired:
		return fmt.Sprintf("set the proxy's user name and password (http://USER:PASSWORD@HOST:PORT) in the environment of %s", a.runtimeName())
	case http.StatusForbidden, http.StatusMethodNotAllowed:
		return fmt.Sprintf("allow the host in the proxy's configuration, or, if the node can reach it directly, add it to NO_PROXY in the environment of %s: %s", a.runtimeName(), u.Hostname())
	}
	return fmt.Sprintf("the proxy cannot reach or resolve the host; if it is on the node's own network, add it to NO_PROXY in the environment of %s: %s", a.runtimeName(), u.Hostname())
}
