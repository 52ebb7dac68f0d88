// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// TestSiteFiles checks that the module is small enough for a mobile connection, that every
// file the page references exists, and that the written site equals the served one.
func TestSiteFiles(t *testing.T) {
	files := must.Get(buildSite(t.Context(), "v1.2.3"))(t)
	if size := len(files[moduleFile]); size < 1<<20 || size > 3_000_000 {
		t.Errorf("the module has %d bytes, compressed; want 3,000,000 at most", size)
	}
	for _, name := range []string{"index.html", "page.js", "worker.js", goSupportFile} {
		if len(files[name]) == 0 {
			t.Errorf("no %s", name)
		}
	}
	if meta, _, _ := strings.Cut(contentSecurityPolicy, "; frame-ancestors"); !strings.Contains(string(files["index.html"]), meta) {
		t.Errorf("index.html does not have the policy %s", meta)
	}
	dir := filepath.Join(t.TempDir(), "site")
	must.Do(t, writeSite(dir, files))
	if err := writeSite(dir, files); err == nil {
		t.Error("written over what was there")
	}
	for name, want := range files {
		got := requestFile(files, "GET", "127.0.0.1:1", "/"+name)
		there, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || got.Code != http.StatusOK || got.Body.String() != string(want) || string(there) != string(want) {
			t.Errorf("%s: %d, %v: not what it is", name, got.Code, err)
		}
		if got.Header().Get("Content-Security-Policy") != contentSecurityPolicy || got.Header().Get("Content-Type") == "" {
			t.Errorf("%s: headers are %v", name, got.Header())
		}
	}
}

func requestFile(files map[string][]byte, method, host, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Host = host
	w := httptest.NewRecorder()
	newHandler(files).ServeHTTP(w, r)
	return w
}

func TestHandler(t *testing.T) {
	files := map[string][]byte{"index.html": []byte("page"), "page.js": []byte("code")}
	for _, tt := range []struct {
		method, host, path string
		code               int
		kind               string
	}{
		{"GET", "127.0.0.1:8080", "/", 200, "text/html; charset=utf-8"},
		{"HEAD", "localhost", "/page.js", 200, "text/javascript; charset=utf-8"},
		{"GET", "127.0.0.1", "/none", 404, "text/plain; charset=utf-8"},
		{"GET", "127.0.0.1", "/../site.go", 404, "text/plain; charset=utf-8"},
		{"POST", "127.0.0.1", "/", 405, "text/plain; charset=utf-8"},
		{"GET", "rebound.example", "/", 421, "text/plain; charset=utf-8"},
	} {
		w := requestFile(files, tt.method, tt.host, tt.path)
		if w.Code != tt.code || w.Header().Get("Content-Type") != tt.kind || w.Header().Get("Content-Security-Policy") == "" {
			t.Errorf("%s %s%s: %d, %v", tt.method, tt.host, tt.path, w.Code, w.Header())
		}
	}
}
