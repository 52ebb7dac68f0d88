// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package probe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/login"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/internal/terminal"
)

// challenge requests the manifest without a credential, as containerd does, and /v2/
// if the response is unclear. It finds out whether the host is a registry and how it
// requests authentication.
func (a *session) challenge(ctx context.Context) bool {
	if err := a.open(); err != nil {
		return a.fail(StepChallenge, "", "%s: %v", a.base.Host, err)
	}
	got, err := a.send(ctx, a.registry, http.MethodHead, a.manifestURL(), 0)
	if err == nil && got.StatusCode == http.StatusMethodNotAllowed {
		got, err = a.send(ctx, a.registry, http.MethodGet, a.manifestURL(), maxPage)
	}
	if err != nil {
		return a.failRequest(ctx, err)
	}
	a.first = got
	switch status := got.StatusCode; {
	case status == http.StatusTooManyRequests || status >= 500:
		return a.outOfOrder(got)
	case status == http.StatusUnauthorized:
		return a.readChallenge(ctx, got)
	case status == http.StatusOK && !isPage(got):
		return a.readChallenge(ctx, got)
	}
	return a.ping(ctx, got)
}

// failRequest reports a request without a response on an open connection.
func (a *session) failRequest(ctx context.Context, err error) bool {
	fix := registryLog
	if a.result.Proxy != "" {
		fix = fmt.Sprintf("check the proxy %s and the registry's log", a.result.Proxy)
	}
	switch text := err.Error(); {
	case errors.Is(err, login.ErrPlainHTTP):
		fix = "configure the registry to redirect to https"
	case strings.Contains(text, "certificate required"):
		return a.fail(StepTLS, a.clientFix(), "%s requires a client certificate and rejects %s", address(&a.base), a.shownCertificate())
	case strings.Contains(text, "redirect"):
		fix = "find the redirect loop in the registry or in a proxy in front of it"
	}
	return a.fail(StepChallenge, fix, "%s: %s", a.base.Host, a.scrub(ctx, err))
}

// scrub returns the text of an error without secrets.
func (a *session) scrub(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		err = Ended(ctx)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return login.NewTry(nil, err, a.registry.Secrets).Err.Error()
}

// outOfOrder reports a response that means "try later".
func (a *session) outOfOrder(got response) bool {
	fix := "try again later, or contact the registry's operator"
	if got.StatusCode == http.StatusTooManyRequests {
		fix = "if pulls are anonymous, use a credential; otherwise, pull less often or use a mirror"
	}
	if after, ok := remote.RetryAfter(got.Header, time.Now()); ok && after > 0 {
		fix += fmt.Sprintf("; retry after %s", terminal.Span(after))
	}
	text := strings.TrimSpace(fmt.Sprintf("HTTP %d %s", got.StatusCode, http.StatusText(got.StatusCode)))
	return a.fail(StepChallenge, fix, "%s responds with %s", a.base.Host, text)
}

// readChallenge reads the authentication challenge of a response.
func (a *session) readChallenge(ctx context.Context, got response) bool {
	// The response may be from a redirect; further requests go to the registry.
	resp := *got.Response
	resp.Request = &http.Request{URL: &a.base}
	said, err := a.registry.Learn(ctx, &resp)
	switch {
	case err != nil:
		return a.fail(StepChallenge, "", "%s: %s", a.base.Host, a.scrub(ctx, err))
	case got.StatusCode == http.StatusOK:
		a.add(StepChallenge, finding.SeverityOK, "", "%s requires no credential", a.base.Host)
		return true
	}
	c := &Challenge{Scheme: scheme(said.Scheme), Realm: said.Parameters["realm"], Service: said.Parameters["service"], Scope: said.Parameters["scope"]}
	switch c.Scheme {
	case "Basic":
		a.result.Challenge = &Challenge{Scheme: c.Scheme, Realm: line(c.Realm)}
		a.add(StepChallenge, finding.SeverityOK, "", "%s requests Basic authentication", a.base.Host)
		return true
	case "Bearer":
		return a.bearer(c)
	}
	words := strings.Fields(got.Header.Get("WWW-Authenticate"))
	if len(words) == 0 {
		return a.fail(StepChallenge, "check the proxy in front of the registry: it removes the WWW-Authenticate header", "%s responds with HTTP 401 without an authentication challenge", a.base.Host)
	}
	return a.fail(StepChallenge, "check the proxy in front of the registry: no runtime supports this authentication scheme",
		"%s responds with HTTP 401 and the authentication scheme %q instead of Basic or Bearer", a.base.Host, login.Bound(words[0], 100))
}

// scheme returns the usual spelling of an authentication scheme.
func scheme(s string) string {
	for _, known := range []string{"Basic", "Bearer"} {
		if strings.EqualFold(s, known) {
			return known
		}
	}
	return s
}

// bearer checks the realm of a Bearer challenge.
func (a *session) bearer(c *Challenge) bool {
	realm, err := url.Parse(c.Realm)
	if err != nil || realm.Host == "" {
		return a.fail(StepChallenge, "in the registry's settings, set the token server's address to https://HOST/PATH", "%s requires a token, but the realm in its challenge is not a URL", a.base.Host)
	}
	at := (&url.URL{Scheme: realm.Scheme, Host: realm.Host, Path: realm.Path}).String()
	a.result.Challenge = &Challenge{Scheme: c.Scheme, Realm: line(at), Service: line(c.Service), Scope: line(c.Scope)}
	a.tokens.realm = realm
	text := fmt.Sprintf("%s requires a token from %s (service %q, scope %q)", a.base.Host, at, c.Service, c.Scope)
	switch {
	case isLoopback(realm.Hostname()) && !isLoopback(a.base.Hostname()):
		return a.fail(StepChallenge, "set the registry's realm (token server) to an address that nodes can reach", "%s: this is a loopback address, so each node would connect to itself", text)
	case realm.Scheme == "http" && a.base.Scheme == "https":
		return a.fail(StepChallenge, "set the registry's realm (token server) to an https URL", "%s: the password would be sent over plain HTTP", text)
	case remote.IsMetadata(realm.Hostname()):
		return a.fail(StepChallenge, "", "%s: this is a metadata server, which regcred never contacts", text)
	case !strings.EqualFold(address(realm), address(&a.base)):
		text += "; the credential is sent to that host"
	}
	a.add(StepChallenge, finding.SeverityOK, "", "%s", text)
	return true
}

// ping distinguishes a registry that refuses the manifest from another server.
func (a *session) ping(ctx context.Context, first response) bool {
	got, err := a.send(ctx, a.registry, http.MethodGet, a.pingURL(), maxPage)
	if err != nil {
		return a.failRequest(ctx, err)
	}
	switch {
	case got.StatusCode == http.StatusTooManyRequests || got.StatusCode >= 500:
		return a.outOfOrder(got)
	case isTLSPort(got):
		return a.fail(StepTLS, "use https", "%s uses TLS, but the request uses plain HTTP", address(&a.base))
	case !isRegistry(got):
		return a.noRegistry(first, got)
	case got.StatusCode == http.StatusUnauthorized && a.Runtime.Name != "containerd":
		return a.readChallenge(ctx, got) // c/image asks here first
	case got.StatusCode == http.StatusUnauthorized:
		a.add(StepChallenge, finding.SeverityWarning, "configure the registry to respond with 401 to anonymous requests for an image",
			"%s requires authentication at /v2/ but responds with HTTP %d for the image, so containerd never authenticates", a.base.Host, first.StatusCode)
	default:
		a.add(StepChallenge, finding.SeverityOK, "", "%s is a registry and requires no credential", a.base.Host)
	}
	return true
}

// noRegistry reports a server that is not a registry.
func (a *session) noRegistry(first, got response) bool {
	const fix = "check the host, port and path: a registry responds to /v2/ with 200 or 401"
	what := fmt.Sprintf("HTTP %d for /v2/", got.StatusCode)
	switch {
	case len(got.redirects) > 0 && isPage(got):
		what += ", a web page reached through a redirect to " + got.redirects[len(got.redirects)-1] + " (a sign-in page?)"
	case len(got.redirects) > 0:
		what += " after a redirect to " + got.redirects[len(got.redirects)-1]
	case isPage(got):
		what += ", a web page"
	}
	return a.fail(StepChallenge, fix, "%s is not a registry: it returned %s, and HTTP %d for the image", a.base.Host, what, first.StatusCode)
}
