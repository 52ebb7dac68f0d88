// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package probe

import (
	"cmp"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"
)

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

func (i Image) id() string { return cmp.Or(i.Digest, i.Tag, "latest") }

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

// proxyVariables returns the variables for a scheme, in the order in which Go reads
// them.
func proxyVariables(scheme string) []string {
	if scheme == "http" {
		return []string{"HTTP_PROXY", "http_proxy"}
	}
	return []string{"HTTPS_PROXY", "https_proxy"}
}

// firstOf returns the first variable that is set, and its value.
func firstOf(environ []string, names ...string) (name, value string) {
	for _, name := range names {
		if value := getenv(environ, name); value != "" {
			return name, value
		}
	}
	return "", ""
}

// proxyOf returns the proxy for a URL and the variable that sets it, or nil. Like Go,
// it ignores invalid addresses.
func proxyOf(environ []string, u *url.URL) (proxy *url.URL, variable string) {
	variable, value := firstOf(environ, proxyVariables(u.Scheme)...)
	_, no := firstOf(environ, "NO_PROXY", "no_proxy")
	cfg := httpproxy.Config{HTTPProxy: value, HTTPSProxy: value, NoProxy: no}
	proxy, _ = cfg.ProxyFunc()(u) // fails for CGI alone
	return proxy, variable
}

// brokenProxy returns the variable with an invalid proxy address, or "".
func brokenProxy(environ []string, u *url.URL) string {
	variable, value := firstOf(environ, proxyVariables(u.Scheme)...)
	if value == "" {
		return ""
	}
	cfg := httpproxy.Config{HTTPSProxy: value}
	if proxy, _ := cfg.ProxyFunc()(&url.URL{Scheme: "https", Host: "registry.example"}); proxy == nil || proxy.Hostname() == "" {
		return variable
	}
	return ""
}
