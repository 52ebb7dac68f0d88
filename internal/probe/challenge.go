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

	"github.com/regcred/regcred/internal/login"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/internal/terminal"
)

// challenge asks for the manifest without a login, as containerd does, and where
// that does not tell at /v2/: whether a registry answers, and how it wants a login.
func (a *asking) challenge(ctx context.Context) bool {
	if err := a.open(); err != nil {
		return a.fail(StepChallenge, "", "%s: %v", a.base.Host, err)
	}
	got, err := a.ask(ctx, a.registry, http.MethodHead, a.manifestURL(), 0)
	if err == nil && got.StatusCode == http.StatusMethodNotAllowed {
		got, err = a.ask(ctx, a.registry, http.MethodGet, a.manifestURL(), maxPage)
	}
	if err != nil {
		return a.failAsking(ctx, err)
	}
	a.first = got
	switch status := got.StatusCode; {
	case status == http.StatusTooManyRequests || status >= 500:
		return a.outOfOrder(got)
	case status == http.StatusUnauthorized:
		return a.learn(ctx, got)
	case status == http.StatusOK && !isPage(got):
		return a.learn(ctx, got)
	}
	return a.ping(ctx, got)
}

// failAsking says why there is no answer to a request over a connection that stands.
func (a *asking) failAsking(ctx context.Context, err error) bool {
	fix := registrysLog
	if a.result.Proxy != "" {
		fix = fmt.Sprintf("look at the proxy %s, through which it is asked, and at the registry's log", a.result.Proxy)
	}
	switch text := err.Error(); {
	case errors.Is(err, login.ErrPlainHTTP):
		fix = "let the registry redirect to https"
	case strings.Contains(text, "certificate required"):
		return a.fail(StepTLS, a.clientCure(), "%s wants a client certificate, and refuses %s", address(&a.base), a.shownCertificate())
	case strings.Contains(text, "redirect"):
		fix = "look at what redirects: a registry, or a proxy in front of it, which leads in a circle"
	}
	return a.fail(StepChallenge, fix, "%s: %s", a.base.Host, a.scrub(ctx, err))
}

// scrub is what an error says, without secrets.
func (a *asking) scrub(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		err = Ended(ctx)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return login.NewTry(nil, err, a.registry.Secrets).Err.Error()
}

// outOfOrder is an answer that says: later.
func (a *asking) outOfOrder(got answer) bool {
	fix := "try again later; the registry's operator knows why"
	if got.StatusCode == http.StatusTooManyRequests {
		fix = "log in, if pulls are anonymous; pull less, or through a mirror"
	}
	if after, ok := remote.RetryAfter(got.Header, time.Now()); ok && after > 0 {
		fix += fmt.Sprintf("; it asks to wait for %s", terminal.Span(after))
	}
	text := strings.TrimSpace(fmt.Sprintf("HTTP %d %s", got.StatusCode, http.StatusText(got.StatusCode)))
	return a.fail(StepChallenge, fix, "%s answers %s", a.base.Host, text)
}

// learn takes an answer for what the registry says of logins.
func (a *asking) learn(ctx context.Context, got answer) bool {
	// A redirect may have been followed; it is the registry that is asked on.
	resp := *got.Response
	resp.Request = &http.Request{URL: &a.base}
	said, err := a.registry.Learn(ctx, &resp)
	switch {
	case err != nil:
		return a.fail(StepChallenge, "", "%s: %s", a.base.Host, a.scrub(ctx, err))
	case got.StatusCode == http.StatusOK:
		a.add(StepChallenge, terminal.OK, "", "%s asks for no login", a.base.Host)
		return true
	}
	c := &Challenge{Scheme: scheme(said.Scheme), Realm: said.Parameters["realm"], Service: said.Parameters["service"], Scope: said.Parameters["scope"]}
	switch c.Scheme {
	case "Basic":
		a.result.Challenge = &Challenge{Scheme: c.Scheme, Realm: line(c.Realm)}
		a.add(StepChallenge, terminal.OK, "", "%s asks for user and password (Basic)", a.base.Host)
		return true
	case "Bearer":
		return a.bearer(c)
	}
	words := strings.Fields(got.Header.Get("WWW-Authenticate"))
	if len(words) == 0 {
		return a.fail(StepChallenge, "look at what stands in front of the registry: it takes the header WWW-Authenticate away", "%s answers HTTP 401, and does not say how to log in", a.base.Host)
	}
	return a.fail(StepChallenge, "look at what stands in front of the registry: no runtime logs in that way",
		"%s answers HTTP 401 and asks for %q, not for Basic or Bearer", a.base.Host, login.Bound(words[0], 100))
}

// scheme is that of a challenge as it is usually written.
func scheme(s string) string {
	for _, known := range []string{"Basic", "Bearer"} {
		if strings.EqualFold(s, known) {
			return known
		}
	}
	return s
}

// bearer looks at where tokens are to be had.
func (a *asking) bearer(c *Challenge) bool {
	realm, err := url.Parse(c.Realm)
	if err != nil || realm.Host == "" {
		return a.fail(StepChallenge, "give the registry the address of its token server, as https://HOST/PATH", "%s asks for a token, of a realm that is no address", a.base.Host)
	}
	at := (&url.URL{Scheme: realm.Scheme, Host: realm.Host, Path: realm.Path}).String()
	a.result.Challenge = &Challenge{Scheme: c.Scheme, Realm: line(at), Service: line(c.Service), Scope: line(c.Scope)}
	a.tokens.realm = realm
	text := fmt.Sprintf("%s asks for a token of %s, service %q, scope %q", a.base.Host, at, c.Service, c.Scope)
	switch {
	case isLoopback(realm.Hostname()) && !isLoopback(a.base.Hostname()):
		return a.fail(StepChallenge, "let the registry name its token server (the realm of its challenge) by an address that nodes can reach", "%s: that is loopback, where each node looks for it on itself", text)
	case realm.Scheme == "http" && a.base.Scheme == "https":
		return a.fail(StepChallenge, "let the registry name its token server with https", "%s: the password would go over plain HTTP", text)
	case remote.IsMetadata(realm.Hostname()):
		return a.fail(StepChallenge, "", "%s: that is a metadata server, which regcred never contacts", text)
	case !strings.EqualFold(address(realm), address(&a.base)):
		text += "; that is another host, which is shown the credential"
	}
	a.add(StepChallenge, terminal.OK, "", "%s", text)
	return true
}

// ping tells a registry that refuses the manifest from what is no registry.
func (a *asking) ping(ctx context.Context, first answer) bool {
	got, err := a.ask(ctx, a.registry, http.MethodGet, a.pingURL(), maxPage)
	if err != nil {
		return a.failAsking(ctx, err)
	}
	switch {
	case got.StatusCode == http.StatusTooManyRequests || got.StatusCode >= 500:
		return a.outOfOrder(got)
	case isTLSPort(got):
		return a.fail(StepTLS, "ask for it with https", "%s speaks TLS, but the request is plain HTTP", address(&a.base))
	case !isRegistry(got):
		return a.noRegistry(first, got)
	case got.StatusCode == http.StatusUnauthorized && a.Runtime.Name != "containerd":
		return a.learn(ctx, got) // c/image asks here first
	case got.StatusCode == http.StatusUnauthorized:
		a.add(StepChallenge, terminal.Warning, "let the registry answer 401 to who asks for an image without a login",
			"%s asks for a login at /v2/, and answers HTTP %d for the image: containerd never logs in there", a.base.Host, first.StatusCode)
	default:
		a.add(StepChallenge, terminal.OK, "", "%s is a registry, and asks for no login", a.base.Host)
	}
	return true
}

// noRegistry says what answers in a registry's place.
func (a *asking) noRegistry(first, got answer) bool {
	const fix = "look at host, port and path: a registry, or what stands in front of it, answers /v2/ with 200 or 401"
	what := fmt.Sprintf("HTTP %d to /v2/", got.StatusCode)
	switch {
	case len(got.redirects) > 0 && isPage(got):
		what += ", a web page of " + got.redirects[len(got.redirects)-1] + " to which it redirects (a login for people?)"
	case len(got.redirects) > 0:
		what += " of " + got.redirects[len(got.redirects)-1] + ", to which it redirects"
	case isPage(got):
		what += ", a web page"
	}
	return a.fail(StepChallenge, fix, "%s is no registry: it answers %s, and HTTP %d for the image", a.base.Host, what, first.StatusCode)
}
