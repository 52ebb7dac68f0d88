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

// Limits for the data of a server, in bytes or items.
const (
	maxHeader    = 64 << 10
	maxToken     = 256 << 10 // of the response with one
	maxPage      = 8 << 10   // of a response that is only identified
	maxManifest  = 4 << 20   // as in package pull
	maxRedirects = 5
)

// response is a server's response with the part of the body that was read.
type response struct {
	*http.Response
	body      []byte
	redirects []string // hosts, where they led
}

// refusal returns the registry's error.
func (g response) refusal() error {
	resp := *g.Response
	resp.Body = io.NopCloser(bytes.NewReader(g.body))
	return transport.CheckError(&resp, http.StatusOK)
}

// isPage reports whether a response is a web page.
func isPage(got response) bool {
	kind, _, _ := mime.ParseMediaType(got.Header.Get("Content-Type"))
	return kind == "text/html" || kind == "application/xhtml+xml"
}

// isTLSPort recognizes the response of common TLS servers to plain HTTP.
func isTLSPort(got response) bool {
	body := strings.ToLower(string(got.body))
	return got.StatusCode == http.StatusBadRequest && (strings.Contains(body, "http request to an https server") ||
		strings.Contains(body, "plain http request was sent to https port") || strings.Contains(body, "speaking plain http to an ssl-enabled server port"))
}

// isRegistry recognizes a registry by its response to /v2/ (distribution
// specification, "Determining Support").
func isRegistry(got response) bool {
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
