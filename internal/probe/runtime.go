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

// Prober asks for one image. Its fields do not change once it is used; it is
// safe for concurrent use then.
type Prober struct {
	Image    Image
	Runtime  Runtime
	Platform string // "linux/amd64"; "" = any will do

	// StepTimeout bounds each connection, handshake and answer; 0 means 5 seconds.
	StepTimeout time.Duration
}

// Image is what is asked for.
type Image struct {
	Host   string // that the reference names, with its port: what a mirror is told
	Tag    string
	Digest string // takes the tag's place
}

func (i Image) id() string { return cmp.Or(i.Digest, i.Tag, "latest") }

// Runtime is the container runtime in whose place hosts are asked.
type Runtime struct {
	Name    string    // "containerd", "CRI-O"; for messages
	Where   string    // whose environment Environ is: "containerd, process 812"
	Environ []string  // which proxies and authorities count
	Started time.Time // of its process, which has read its authorities then; zero: not known

	Own []string // this process's environment, for what is set there and not for the runtime
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

// proxyVariables are the names of the variables for a scheme, in the order in
// which Go looks for them.
func proxyVariables(scheme string) []string {
	if scheme == "http" {
		return []string{"HTTP_PROXY", "http_proxy"}
	}
	return []string{"HTTPS_PROXY", "https_proxy"}
}

// firstOf is the first of the variables that is set, and its value.
func firstOf(environ []string, names ...string) (name, value string) {
	for _, name := range names {
		if value := getenv(environ, name); value != "" {
			return name, value
		}
	}
	return "", ""
}

// proxyOf is the proxy for a URL in an environment, and the variable that says
// so; a nil URL means that there is none. An address that is none counts as none,
// as it does to Go.
func proxyOf(environ []string, u *url.URL) (proxy *url.URL, variable string) {
	variable, value := firstOf(environ, proxyVariables(u.Scheme)...)
	_, no := firstOf(environ, "NO_PROXY", "no_proxy")
	cfg := httpproxy.Config{HTTPProxy: value, HTTPSProxy: value, NoProxy: no}
	proxy, _ = cfg.ProxyFunc()(u) // fails for CGI alone
	return proxy, variable
}

// brokenProxy is the variable that has an address of a proxy that is none; ""
// if there is none such.
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
