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

// Query queries one host and tries each credential in turn until one is accepted.
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
		a.result.Steps[n-1].Fix = "" // the step had no time left, so the cause is unknown
	}
	return a.result
}

// The names of the steps, in order.
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
	Addresses    []string      `json:"addresses,omitempty"`    // addresses of the host or the proxy
	Proxy        string        `json:"proxy,omitempty"`        // host:port; "" means none
	Certificates []Certificate `json:"certificates,omitempty"` // certificates the server sent, its own first
	Challenge    *Challenge    `json:"challenge,omitempty"`    // nil if no credential is required
	Status       int           `json:"status,omitempty"`       // status of the last manifest response
	Accepted     int           `json:"-"`                      // index of the accepted credential; -1 means none
	Pulls        bool          `json:"pulls"`                  // the manifest can be read, with Accepted or anonymously
	Digest       string        `json:"digest,omitempty"`       // manifest digest reported by the host
	MediaType    string        `json:"mediaType,omitempty"`    // likewise
	Platforms    []string      `json:"platforms,omitempty"`    // of an index
}

// Certificate describes a server certificate.
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

// FailedStep returns the failed step, or nil if the manifest exists.
func (r *Result) FailedStep() *finding.Finding {
	for i := len(r.Steps) - 1; i >= 0; i-- {
		if r.Steps[i].Severity == finding.SeverityError {
			return &r.Steps[i]
		}
	}
	return nil
}

// Prober queries hosts for one image. It is safe for concurrent use as long as its
// fields are not changed.
type Prober struct {
	Image    Image
	Runtime  Runtime
	Platform string // such as "linux/amd64"; "" means any

	// StepTimeout limits each connection, handshake and response; 0 means 5 seconds.
	StepTimeout time.Duration
}

// Image is the image to request.
type Image struct {
	Host   string // the reference's host and port; sent to mirrors as ns
	Tag    string
	Digest string // used instead of the tag
}

func (i Image) tagOrDigest() string { return cmp.Or(i.Digest, i.Tag, "latest") }

// Runtime holds the settings of the container runtime that would send the requests.
type Runtime struct {
	Name    string    // name for messages, such as "containerd" or "CRI-O"
	Where   string    // the process that Environ belongs to, such as "containerd, process 812"
	Environ []string  // sets proxies and trusted CAs
	Started time.Time // when its process started and read the trusted CAs; zero if unknown

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

// proxyVariableNames returns the proxy variables for a scheme in the order Go reads
// them.
func proxyVariableNames(scheme string) []string {
	if scheme == "http" {
		return []string{"HTTP_PROXY", "http_proxy"}
	}
	return []string{"HTTPS_PROXY", "https_proxy"}
}

// firstSetVariable returns the name and value of the first variable that is set.
func firstSetVariable(environ []string, names ...string) (name, value string) {
	for _, name := range names {
		if value := getenv(environ, name); value != "" {
			return name, value
		}
	}
	return "", ""
}

// proxyForURL returns the proxy for a URL and the variable that sets it, or nil if
// none exists. Like Go, it ignores invalid addresses.
func proxyForURL(environ []string, u *url.URL) (proxy *url.URL, variable string) {
	variable, value := firstSetVariable(environ, proxyVariableNames(u.Scheme)...)
	_, no := firstSetVariable(environ, "NO_PROXY", "no_proxy")
	cfg := httpproxy.Config{HTTPProxy: value, HTTPSProxy: value, NoProxy: no}
	proxy, _ = cfg.ProxyFunc()(u) // fails only for CGI
	return proxy, variable
}

// invalidProxyVariable returns the name of a variable with an invalid proxy address, or
// "".
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
