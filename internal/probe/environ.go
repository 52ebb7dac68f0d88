// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package probe

import (
	"net/url"
	"strings"

	"golang.org/x/net/http/httpproxy"

	"github.com/regcred/regcred/internal/node"
)

// proxyVariableNames returns the proxy variables for a scheme in the order Go reads
// them.
func proxyVariableNames(scheme string) []string {
	return []string{strings.ToUpper(scheme) + "_PROXY", scheme + "_proxy"}
}

// firstSetVariable returns the name and value of the first variable that is set.
func firstSetVariable(environ []string, names ...string) (name, value string) {
	for _, name := range names {
		if value := node.Getenv(environ, name); value != "" {
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
