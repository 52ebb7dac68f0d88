// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cmd_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// exchangeRecorder records the messages between plugins and servers in the format of the wire
// samples. Placeholders replace secrets, random values and times.
type exchangeRecorder struct {
	mu        sync.Mutex
	exchanges []string
	secrets   [][2]string // value and placeholder
}

// maskSecret replaces a secret with a placeholder.
func (p *exchangeRecorder) maskSecret(secret, placeholder string) {
	p.secrets = append(p.secrets, [2]string{secret, "{" + placeholder + "}"})
}

// recordHandler returns a handler that calls next and records the exchange. If name is not empty, name
// replaces the host in the record.
func (p *exchangeRecorder) recordHandler(name string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)

		p.mu.Lock()
		p.exchanges = append(p.exchanges, formatRequest(r, cmp.Or(name, r.Host), body)+"\n"+formatResponse(answer))
		p.mu.Unlock()

		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		w.Write(answer.Body.Bytes())
	})
}

// recordedSamples returns the recorded exchanges, with placeholders for variable text.
func (p *exchangeRecorder) recordedSamples() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Longest first, because some secrets are prefixes of others.
	slices.SortStableFunc(p.secrets, func(a, b [2]string) int { return len(b[0]) - len(a[0]) })
	var list []string
	for _, text := range p.exchanges {
		for _, secret := range p.secrets {
			text = strings.ReplaceAll(text, secret[0], secret[1])
		}
		for _, v := range variablePatterns {
			text = v.pattern.ReplaceAllString(text, v.replacement)
		}
		list = append(list, text)
	}
	return list
}

// variablePatterns matches text that differs between runs or SDK versions.
var variablePatterns = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "{TIME}"},
	{regexp.MustCompile(`(X-Amz-Date: )\d{8}T\d{6}Z`), "$1{TIME}"},
	{regexp.MustCompile(`(Credential=\w+/)\d{8}/`), "$1{DATE}/"},
	{regexp.MustCompile(`Signature=[0-9a-f]{64}`), "Signature={SIGNATURE}"},
	{regexp.MustCompile(`("expiresAt": )[0-9.e+]+`), "$1{SECONDS-SINCE-1970}"},
	{regexp.MustCompile(`("expires_on": )"\d+"`), `$1"{SECONDS-SINCE-1970}"`},
	{regexp.MustCompile(`(User-Agent: aws-sdk-go-v2)/.*`), "$1{AND-MORE}"},
	{regexp.MustCompile(`(Invocation-Id: )[0-9a-f-]{36}\n`), "$1{UUID}\n"},
}

// formatRequest formats a request. Forms are decoded, with one field per line.
func formatRequest(r *http.Request, host string, body []byte) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	address := url.URL{Scheme: scheme, Host: strings.TrimSuffix(host, ":443"), Path: r.URL.Path, RawQuery: r.URL.RawQuery}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", r.Method, &address)
	writeHeader(&b, r.Header, "Content-Length", "Connection")
	if form, err := url.ParseQuery(string(body)); err == nil && r.Header.Get("Content-Type") == "application/x-www-form-urlencoded" {
		b.WriteString("\n")
		for _, field := range slices.Sorted(maps.Keys(form)) {
			fmt.Fprintf(&b, "%s=%s\n", field, strings.Join(form[field], " and "))
		}
		return b.String()
	}
	writeBody(&b, body)
	return b.String()
}

// formatResponse formats a response.
func formatResponse(answer *httptest.ResponseRecorder) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s\n", answer.Code, http.StatusText(answer.Code))
	writeHeader(&b, answer.Header(), "Content-Length", "Date", "X-Content-Type-Options")
	writeBody(&b, answer.Body.Bytes())
	return b.String()
}

func writeHeader(b *strings.Builder, header http.Header, without ...string) {
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if !slices.Contains(without, name) {
			fmt.Fprintf(b, "%s: %s\n", name, strings.Join(header[name], ", "))
		}
	}
}

// writeBody writes a document with each member or tag on its own line.
func writeBody(b *strings.Builder, body []byte) {
	text := strings.TrimSuffix(string(body), "\n")
	if text == "" {
		return
	}
	var indented bytes.Buffer
	if strings.ContainsAny(text[:1], "{[") && json.Indent(&indented, []byte(text), "", "  ") == nil {
		text = indented.String()
	}
	if strings.HasPrefix(text, "<") {
		text = strings.ReplaceAll(text, "><", ">\n<")
	}
	b.WriteString("\n" + text + "\n")
}
