// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package probe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// tokenRecorder is a transport that records the token server's response. If the runtime
// requests tokens with POST first, tokenRecorder does so as well.
type tokenRecorder struct {
	inner      *http.Transport
	realm      *url.URL // nil before the challenge is read
	postsFirst bool     // the runtime sends POST with the password first and falls back to GET

	method    string // method of the last request with a response; "" if there was none
	status    int    // status of that response
	mediaType string // media type of that response
	response  bytes.Buffer
	complete  bool // the response was read to the end
}

// postFallbackStatuses lists the statuses after which containerd falls back to GET.
var postFallbackStatuses = []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusMethodNotAllowed}

func (t *tokenRecorder) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.realm == nil || req.URL.Host != t.realm.Host || req.URL.Path != t.realm.Path {
		return t.inner.RoundTrip(req)
	}
	t.method, t.status, t.mediaType = "", 0, ""
	t.response.Reset()
	t.complete = false
	if user, password, ok := req.BasicAuth(); ok && t.postsFirst && req.Method == http.MethodGet {
		resp, err := t.sendAsPost(req, user, password)
		// Do not follow a redirect, which would send the password to another address.
		if err != nil || resp.StatusCode/100 != 3 && !slices.Contains(postFallbackStatuses, resp.StatusCode) {
			return t.recordResponse(http.MethodPost, resp), err
		}
		resp.Body.Close()
	}
	resp, err := t.inner.RoundTrip(req)
	return t.recordResponse(req.Method, resp), err
}

// sendAsPost sends a GET request for a token as a POST request.
func (t *tokenRecorder) sendAsPost(get *http.Request, user, password string) (*http.Response, error) {
	u := *get.URL
	query := u.Query()
	form := url.Values{
		"grant_type": {"password"}, "client_id": {"containerd-client"}, "username": {user}, "password": {password},
		"service": query["service"], "scope": {strings.Join(query["scope"], " ")},
	}
	u.RawQuery = t.realm.RawQuery
	req, err := http.NewRequestWithContext(get.Context(), http.MethodPost, u.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	req.Header.Set("User-Agent", get.UserAgent())
	return t.inner.RoundTrip(req)
}

// recordResponse records a response, and its body as it is read.
func (t *tokenRecorder) recordResponse(method string, resp *http.Response) *http.Response {
	if resp == nil {
		return nil
	}
	t.method, t.status = method, resp.StatusCode
	t.mediaType, _, _ = mime.ParseMediaType(resp.Header.Get("Content-Type"))
	resp.Body = &recordedBody{io.TeeReader(io.LimitReader(resp.Body, maxTokenResponse), &t.response), resp.Body, t}
	return resp
}

// recordedBody records whether a body was read to the end.
type recordedBody struct {
	io.Reader
	io.Closer
	t *tokenRecorder
}

func (b *recordedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.t.complete = b.t.complete || err == io.EOF
	return n, err
}

// tokenFields returns the response's fields that may contain a token.
func (t *tokenRecorder) tokenFields() (token, access string) {
	var fields struct {
		Token  string `json:"token"`
		Access string `json:"access_token"`
	}
	if json.Unmarshal(t.response.Bytes(), &fields) != nil {
		return "", ""
	}
	return fields.Token, fields.Access
}

// missingTokenProblem describes a successful response that contains no token, and returns the
// fix. It returns "" for both if there is no such problem.
func (t *tokenRecorder) missingTokenProblem() (what, fix string) {
	if t.status != http.StatusOK || !t.complete {
		return "", ""
	}
	at := (&url.URL{Scheme: t.realm.Scheme, Host: t.realm.Host, Path: t.realm.Path}).String()
	token, access := t.tokenFields()
	fix = "check that the realm in the registry's settings is the address of its token server"
	switch {
	case token == "" && access == "":
	case access == "" && t.method == http.MethodPost:
		return fmt.Sprintf("the token server %s responds to POST with a token but without access_token, the only field that containerd reads", at),
			"configure the token server to also return access_token, or to respond to POST with 405, so that containerd uses GET"
	default:
		return "", ""
	}
	what = "something other than JSON"
	body := bytes.TrimSpace(t.response.Bytes())
	switch {
	case t.mediaType == "text/html", t.mediaType == "application/xhtml+xml", bytes.HasPrefix(body, []byte("<")):
		what = "a web page (HTML)"
	case len(body) == 0:
		what = "nothing"
	case json.Valid(body):
		what = "JSON without a token"
	}
	return fmt.Sprintf("the token server %s returns no token for %s: HTTP 200 with %s", at, t.method, what), fix
}
