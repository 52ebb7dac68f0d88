// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"net/http"
	"path"
	"strings"
	"time"
)

// contentSecurityPolicy allows the page and its worker to load only the site's own
// files. The page has the same policy in a meta element, for hosts that do not set
// headers, but frame-ancestors works only in a header.
const contentSecurityPolicy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; connect-src 'self'; worker-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// mediaTypes maps file extensions to media types. Package mime is not used, because its table
// depends on the machine.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".z":    "application/octet-stream",
}

// newHandler serves the site's files.
func newHandler(files map[string][]byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if name == "" {
			name = "index.html"
		}
		data, found := files[name]
		header := w.Header()
		header.Set("Content-Security-Policy", contentSecurityPolicy)
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-cache")
		switch {
		case !isLoopbackName(r.Host):
			http.Error(w, "this page is served only at 127.0.0.1 and localhost", http.StatusMisdirectedRequest)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			header.Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD are supported", http.StatusMethodNotAllowed)
		case !found:
			http.NotFound(w, r)
		default:
			header.Set("Content-Type", mediaTypes[path.Ext(name)])
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
		}
	})
}

// isLoopbackName reports whether host is a loopback name of this machine. Rejecting
// other names prevents DNS rebinding.
func isLoopbackName(host string) bool {
	name, _, _ := strings.Cut(host, ":")
	return name == "127.0.0.1" || name == "localhost"
}
