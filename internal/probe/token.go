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
)

// tokenRecorder is a transport that records the token server's response.
type tokenRecorder struct {
	inner *http.Transport
	realm *url.URL // nil before the challenge is read

	method    string // method of the last request with a response; "" if there was none
	status    int    // status of that response
	mediaType string // media type of that response
	response  bytes.Buffer
	complete  bool // the response was read to the end
}

func (t *tokenRecorder) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.realm == nil || req.URL.Host != t.realm.Host || req.URL.Path != t.realm.Path {
		return t.inner.RoundTrip(req)
	}
	t.method, t.status, t.mediaType = "", 0, ""
	t.response.Reset()
	t.complete = false
	resp, err := t.inner.RoundTrip(req)
	return t.recordResponse(req.Method, resp), err
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
	if t.status < 200 || t.status >= 400 || !t.complete {
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
	return fmt.Sprintf("the token server %s returns no token for %s: HTTP %d with %s", at, t.method, t.status, what), fix
}
