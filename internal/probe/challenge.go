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

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/login"
	"github.com/regcred/regcred/internal/remote"
)

// requestChallenge requests the manifest without a credential, as containerd does. It then
// requests /v2/ if the response is unclear, or if the runtime takes the challenge from there
// (containers/image). It determines whether the host is a registry and which authentication
// it requires.
func (a *session) requestChallenge(ctx context.Context) bool {
	if err := a.newHTTPClients(); err != nil {
		return a.addFailedStep(StepChallenge, "", "%s: %v", a.base.Host, err)
	}
	got, err := a.sendRequest(ctx, a.registry, http.MethodHead, a.manifestURL(), 0)
	if err == nil && got.StatusCode == http.StatusMethodNotAllowed {
		got, err = a.sendRequest(ctx, a.registry, http.MethodGet, a.manifestURL(), maxOtherResponse)
	}
	if err != nil {
		return a.addRequestError(ctx, err)
	}
	a.anonymousResponse = got
	switch status := got.StatusCode; {
	case status == http.StatusTooManyRequests || status >= 500:
		return a.reportUnavailable(got)
	case a.registry.Runtime == login.ContainersImage:
	case status == http.StatusUnauthorized, status == http.StatusOK && !isWebPage(got):
		return a.readChallenge(got)
	}
	return a.pingRegistry(ctx, got)
}

// addRequestError reports a request that got no response on an open connection.
func (a *session) addRequestError(ctx context.Context, err error) bool {
	fix := checkRegistryLogFix
	if a.result.Proxy != "" {
		fix = fmt.Sprintf("check the proxy %s and the registry's log", a.result.Proxy)
	}
	switch text := err.Error(); {
	case errors.Is(err, login.ErrPlainHTTPNotAllowed):
		fix = "configure the registry to redirect to https"
	case strings.Contains(text, "certificate required"):
		return a.addFailedStep(StepTLS, a.clientCertFix(), "%s requires a client certificate and rejects %s", hostPort(&a.base), a.clientCertText())
	case strings.Contains(text, "redirect"):
		fix = "find the redirect loop in the registry or in a proxy in front of it"
	}
	return a.addFailedStep(StepChallenge, fix, "%s: %s", a.base.Host, a.redactedText(ctx, err))
}

// redactedText returns the error's message with secrets removed.
func (a *session) redactedText(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		err = ContextCause(ctx)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return login.NewFailedAttempt(nil, err, a.registry.Secrets).Err.Error()
}

// reportUnavailable reports a response that means "try again later".
func (a *session) reportUnavailable(got serverResponse) bool {
	fix := a.statusFix(got.StatusCode, nil) + retryAfterText(got)
	text := strings.TrimSpace(fmt.Sprintf("HTTP %d %s", got.StatusCode, http.StatusText(got.StatusCode)))
	return a.addFailedStep(StepChallenge, fix, "%s responds with %s", a.base.Host, text)
}

// readChallenge parses the authentication challenge in a response.
func (a *session) readChallenge(got serverResponse) bool {
	// The response may come from the target of a redirect, but further requests go to the
	// registry.
	resp := *got.Response
	resp.Request = &http.Request{URL: &a.base}
	said := a.registry.Learn(&resp)
	switch {
	case got.StatusCode == http.StatusOK:
		a.addStep(StepChallenge, finding.SeverityOK, "", "%s requires no credential", a.base.Host)
		return true
	case said == nil:
	case said.Scheme == login.SchemeBasic:
		a.result.Challenge = &Challenge{Scheme: "Basic", Realm: singleLine(said.Parameters["realm"])}
		a.addStep(StepChallenge, finding.SeverityOK, "", "%s requests Basic authentication", a.base.Host)
		return true
	default:
		return a.checkBearerRealm(said.Parameters["realm"], said.Parameters["service"], said.Parameters["scope"])
	}
	words := strings.Fields(got.Header.Get("WWW-Authenticate"))
	if len(words) == 0 {
		return a.addFailedStep(StepChallenge, "check the proxy in front of the registry: it removes the WWW-Authenticate header", "%s responds with HTTP 401 without an authentication challenge", a.base.Host)
	}
	return a.addFailedStep(StepChallenge, "check the proxy in front of the registry: no runtime supports this authentication scheme",
		"%s responds with HTTP 401 and the authentication scheme %q instead of Basic or Bearer", a.base.Host, login.Truncate(words[0], 100))
}

// checkBearerRealm checks the realm of a Bearer challenge.
func (a *session) checkBearerRealm(address, service, scope string) bool {
	realm, err := url.Parse(address)
	if err != nil || realm.Host == "" {
		return a.addFailedStep(StepChallenge, "in the registry's settings, set the token server's address to https://HOST/PATH", "%s requires a token, but the realm in its challenge is not a URL", a.base.Host)
	}
	at := (&url.URL{Scheme: realm.Scheme, Host: realm.Host, Path: realm.Path}).String()
	a.result.Challenge = &Challenge{Scheme: "Bearer", Realm: singleLine(at), Service: singleLine(service), Scope: singleLine(scope)}
	a.tokens.realm = realm
	text := fmt.Sprintf("%s requires a token from %s (service %q, scope %q)", a.base.Host, at, service, scope)
	switch {
	case isLoopback(realm.Hostname()) && !isLoopback(a.base.Hostname()):
		return a.addFailedStep(StepChallenge, "set the registry's realm (token server) to an address that nodes can reach", "%s: this is a loopback address, so each node would connect to itself", text)
	case realm.Scheme == "http" && a.base.Scheme == "https":
		return a.addFailedStep(StepChallenge, "set the registry's realm (token server) to an https URL", "%s: the password would be sent over plain HTTP", text)
	case remote.IsMetadataHost(realm.Hostname()):
		return a.addFailedStep(StepChallenge, "", "%s: this is a metadata server, which regcred never contacts", text)
	case !strings.EqualFold(hostPort(realm), hostPort(&a.base)):
		text += "; the credential is sent to that host"
	}
	a.addStep(StepChallenge, finding.SeverityOK, "", "%s", text)
	return true
}

// pingRegistry requests /v2/ to get the challenge for containers/image, and to distinguish a registry
// that denies access to the manifest from a server that is not a registry.
func (a *session) pingRegistry(ctx context.Context, first serverResponse) bool {
	containersImage := a.registry.Runtime == login.ContainersImage
	at := a.base
	at.Path, at.RawPath, at.RawQuery = "/v2/", "", ""
	got, err := a.sendRequest(ctx, a.registry, http.MethodGet, &at, maxOtherResponse)
	if err != nil {
		return a.addRequestError(ctx, err)
	}
	switch {
	case got.StatusCode == http.StatusTooManyRequests || got.StatusCode >= 500:
		return a.reportUnavailable(got)
	case isTLSPortResponse(got):
		return a.addFailedStep(StepTLS, "use https", "%s uses TLS, but the request uses plain HTTP", hostPort(&a.base))
	case !isRegistryPing(got):
		return a.reportNotRegistry(first, got)
	case got.StatusCode == http.StatusUnauthorized && (containersImage || a.Runtime.Name == ""):
		return a.readChallenge(got)
	case containersImage && got.StatusCode != http.StatusOK:
		return a.addFailedStep(StepChallenge, "configure the registry to respond to /v2/ with 200 or 401", "%s responds with HTTP %d to /v2/, where %s sends its first request, so every pull fails", a.base.Host, got.StatusCode, a.runtimeName())
	case containersImage && first.StatusCode == http.StatusUnauthorized:
		a.addStep(StepChallenge, finding.SeverityWarning, "configure the registry to respond with 401 to anonymous requests for /v2/",
			"%s requires authentication for the image but not at /v2/, so %s never authenticates", a.base.Host, a.runtimeName())
	case got.StatusCode == http.StatusUnauthorized:
		a.addStep(StepChallenge, finding.SeverityWarning, "configure the registry to respond with 401 to anonymous requests for an image",
			"%s requires authentication at /v2/ but responds with HTTP %d for the image, so containerd never authenticates", a.base.Host, first.StatusCode)
	default:
		a.addStep(StepChallenge, finding.SeverityOK, "", "%s is a registry and requires no credential", a.base.Host)
	}
	return true
}

// reportNotRegistry reports a server that is not a registry.
func (a *session) reportNotRegistry(first, got serverResponse) bool {
	const fix = "check the host, port and path: a registry responds to /v2/ with 200 or 401"
	what := fmt.Sprintf("HTTP %d for /v2/", got.StatusCode)
	switch {
	case len(got.redirects) > 0 && isWebPage(got):
		what += ", a web page reached through a redirect to " + got.redirects[len(got.redirects)-1] + " (a sign-in page?)"
	case len(got.redirects) > 0:
		what += " after a redirect to " + got.redirects[len(got.redirects)-1]
	case isWebPage(got):
		what += ", a web page"
	}
	return a.addFailedStep(StepChallenge, fix, "%s is not a registry: it returned %s, and HTTP %d for the image", a.base.Host, what, first.StatusCode)
}
