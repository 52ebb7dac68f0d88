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

// policy allows the page and its worker to load only files of the site. The page also
// has it as a meta element, for hosts that do not set headers, but frame-ancestors
// works only as a header.
const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; connect-src 'self'; worker-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// types maps file extensions to media types, independent of the machine's own table.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".z":    "application/octet-stream",
}

// handler serves the files of the site.
func handler(files map[string][]byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if name == "" {
			name = "index.html"
		}
		data, found := files[name]
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-cache")
		switch {
		case !ours(r.Host):
			http.Error(w, "this page is served only at 127.0.0.1 and localhost", http.StatusMisdirectedRequest)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			header.Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD are supported", http.StatusMethodNotAllowed)
		case !found:
			http.NotFound(w, r)
		default:
			header.Set("Content-Type", types[path.Ext(name)])
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
		}
	})
}

// ours reports whether host is a name of this machine's loopback, to prevent DNS
// rebinding.
func ours(host string) bool {
	name, _, _ := strings.Cut(host, ":")
	return name == "127.0.0.1" || name == "localhost"
}
