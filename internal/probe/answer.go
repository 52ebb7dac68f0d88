// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package probe

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Bounds of what a server sends, in bytes and in number.
const (
	maxHeader    = 64 << 10
	maxToken     = 256 << 10 // of the answer with one
	maxPage      = 8 << 10   // of an answer that is looked at for what it is
	maxManifest  = 4 << 20   // as in package pull
	maxRedirects = 5
)

// answer is a server's, without its body but for what was read of it.
type answer struct {
	*http.Response
	body      []byte
	redirects []string // hosts, where they led
}

// refusal is what a registry says of a request that it refuses.
func (g answer) refusal() error {
	resp := *g.Response
	resp.Body = io.NopCloser(bytes.NewReader(g.body))
	return transport.CheckError(&resp, http.StatusOK)
}

// isPage reports whether an answer is for people.
func isPage(got answer) bool {
	kind, _, _ := mime.ParseMediaType(got.Header.Get("Content-Type"))
	return kind == "text/html" || kind == "application/xhtml+xml"
}

// isTLSPort knows how common servers answer plain HTTP where they speak TLS.
func isTLSPort(got answer) bool {
	body := strings.ToLower(string(got.body))
	return got.StatusCode == http.StatusBadRequest && (strings.Contains(body, "http request to an https server") ||
		strings.Contains(body, "plain http request was sent to https port") || strings.Contains(body, "speaking plain http to an ssl-enabled server port"))
}

// isRegistry knows a registry by its answer to /v2/ (distribution
// specification, "Determining Support").
func isRegistry(got answer) bool {
	if got.Header.Get("Docker-Distribution-Api-Version") != "" {
		return true
	}
	if isPage(got) || len(got.redirects) > 0 && got.StatusCode != http.StatusOK && got.StatusCode != http.StatusUnauthorized {
		return false
	}
	var said struct {
		Errors []struct {
			Code string `json:"code"`
		} `json:"errors"`
	}
	json.Unmarshal(got.body, &said)
	return got.StatusCode == http.StatusOK || got.StatusCode == http.StatusUnauthorized && got.Header.Get("WWW-Authenticate") != "" || len(said.Errors) > 0
}
