// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package probe queries a host as a container runtime would when it pulls an image. It
// reports each step (DNS, connection, TLS, challenge, token, manifest) and why a step
// failed. It does not request blobs.
//
//	p := &probe.Prober{Image: probe.Image{Tag: "1.2"}, Runtime: runtime}
//	result := p.Query(ctx, hop, credentials)
//
// A credential is sent only to hosts to which the runtime would send it, and to their
// token servers; over TLS unless the runtime's files allow plain HTTP; never after a
// redirect. Addresses of metadata servers are never contacted.
package probe

import (
	"cmp"
	"context"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/route"
)

// Query queries one host, with each credential in turn until one is accepted.
func (p *Prober) Query(ctx context.Context, hop route.Hop, creds []regcred.Credential) *Result {
	a := &session{Prober: p, hop: hop, base: *hop.Base, result: &Result{URL: hop.URL, Accepted: -1}}
	if hop.HTTPToo {
		a.base.Scheme = "https"
	}
	if err := a.loadCertificates(ctx); err != nil {
		a.addFailedStep(StepTLS, "", "%v", err)
		return a.result
	}
	if a.openConnection(ctx, &a.base) && a.requestChallenge(ctx) {
		a.tryCredentials(ctx, creds)
	}
	a.close()
	if n := len(a.result.Steps); n > 0 && ctx.Err() != nil {
		a.result.Steps[n-1].Fix = "" // the step had no time, so the cause is unknown
	}
	return a.result
}

// The names of the steps, in their order.
const (
	StepDNS       = "dns"
	StepProxy     = "proxy"
	StepTCP       = "tcp"
	StepTLS       = "tls"
	StepChallenge = "challenge"
	StepToken     = "registry-token"
	StepManifest  = "manifest"
)

// Result is the result of querying a host.
type Result struct {
	Steps []finding.Finding `json:"-"` // in order; Rule is the name of the step

	URL          string        `json:"url"`
	Addresses    []string      `json:"addresses,omitempty"`    // of the host's name, or the proxy's
	Proxy        string        `json:"proxy,omitempty"`        // host:port; "" = none
	Certificates []Certificate `json:"certificates,omitempty"` // that the server sent, its own first
	Challenge    *Challenge    `json:"challenge,omitempty"`    // nil: no credential is required
	Status       int           `json:"status,omitempty"`       // of the last response for the manifest
	Accepted     int           `json:"-"`                      // index of the credential; -1: none
	Pulls        bool          `json:"pulls"`                  // the manifest is there, with Accepted or anonymously
	Digest       string        `json:"digest,omitempty"`       // of the manifest, as the host says
	MediaType    string        `json:"mediaType,omitempty"`    // likewise
	Platforms    []string      `json:"platforms,omitempty"`    // of an index
}

// Certificate describes a certificate of a server.
type Certificate struct {
	Subject   string    `json:"subject"`
	Issuer    string    `json:"issuer"`
	Names     []string  `json:"names,omitempty"`
	NotBefore time.Time `json:"notBefore"`
	NotAfter  time.Time `json:"notAfter"`
}

// Challenge is a registry's request for authentication.
type Challenge struct {
	Scheme  string `json:"scheme"` // "Bearer" or "Basic"
	Realm   string `json:"realm,omitempty"`
	Service string `json:"service,omitempty"`
	Scope   string `json:"scope,omitempty"`
}

// FailedStep returns the step that failed; nil if the manifest exists.
func (r *Result) FailedStep() *finding.Finding {
	for i := len(r.Steps) - 1; i >= 0; i-- {
		if r.Steps[i].Severity == finding.SeverityError {
			return &r.Steps[i]
		}
	}
	return nil
}

// Prober queries hosts for one image. It is safe for concurrent use if its fields do
// not change.
type Prober struct {
	Image    Image
	Runtime  Runtime
	Platform string // "linux/amd64"; "" = any will do

	// StepTimeout bounds each connection, handshake and response; 0 means 5 seconds.
	StepTimeout time.Duration
}

// Image is the image to request.
type Image struct {
	Host   string // of the reference, with its port; sent to mirrors as ns
	Tag    string
	Digest string // takes the tag's place
}

func (i Image) tagOrDigest() string { return cmp.Or(i.Digest, i.Tag, "latest") }

// Runtime has the settings of the container runtime that would send the requests.
type Runtime struct {
	Name    string    // "containerd", "CRI-O"; for messages
	Where   string    // whose environment Environ is: "containerd, process 812"
	Environ []string  // which proxies and authorities count
	Started time.Time // of its process, which has read its authorities then; zero: not known

	Own []string // this process's environment, for hints about variables that the runtime lacks
}

func getenv(environ []string, name string) string {
	for i := len(environ) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(environ[i], name+"="); ok {
			return value
		}
	}
	return ""
}

func (r *Runtime) getenv(name string) string { return getenv(r.Environ, name) }

// proxyVariableNames returns the variables for a scheme, in the order in which Go reads
// them.
func proxyVariableNames(scheme string) []string {
	if scheme == "http" {
		return []string{"HTTP_PROXY", "http_proxy"}
	}
	return []string{"HTTPS_PROXY", "https_proxy"}
}

// firstSetVariable returns the first variable that is set, and its value.
func firstSetVariable(environ []string, names ...string) (name, value string) {
	for _, name := range names {
		if value := getenv(environ, name); value != "" {
			return name, value
		}
	}
	return "", ""
}

// proxyForURL returns the proxy for a URL and the variable that sets it, or nil. Like Go,
// it ignores invalid addresses.
func proxyForURL(environ []string, u *url.URL) (proxy *url.URL, variable string) {
	variable, value := firstSetVariable(environ, proxyVariableNames(u.Scheme)...)
	_, no := firstSetVariable(environ, "NO_PROXY", "no_proxy")
	cfg := httpproxy.Config{HTTPProxy: value, HTTPSProxy: value, NoProxy: no}
	proxy, _ = cfg.ProxyFunc()(u) // fails for CGI alone
	return proxy, variable
}

// invalidProxyVariable returns the variable with an invalid proxy address, or "".
func invalidProxyVariable(environ []string, u *url.URL) string {
	variable, value := firstSetVariable(environ, proxyVariableNames(u.Scheme)...)
	if value == "" {
		return ""
	}
	cfg := httpproxy.Config{HTTPSProxy: value}
	if proxy, _ := cfg.ProxyFunc()(&url.URL{Scheme: "https", Host: "registry.example"}); proxy == nil || proxy.Hostname() == "" {
		return variable
	}
	return ""
}
