// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/login"
)

// outcome is the result of one request, which may be sent with several candidates.
type outcome struct {
	resp     *http.Response // set if a candidate was accepted
	refusals []refusal
	final    bool  // no other candidate may be tried; the last refusal becomes the response
	err      error // an error that no other credential can fix

	sent bool // the request and its body were sent
}

// refusal is the error of one candidate.
type refusal struct {
	login.FailedAttempt
	header http.Header // the response's header; nil if the login failed
}

// nextRequest returns the request for the next candidate. If the request was sent before,
// the result has a new copy of the body.
func (o *outcome) nextRequest(req *http.Request) (*http.Request, error) {
	if !o.sent || req.GetBody == nil {
		o.sent = true
		return req, nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Body = body
	return req, nil
}

// closeUnsent closes the body of a request that was never sent.
func (o *outcome) closeUnsent(req *http.Request) {
	if !o.sent && req.Body != nil {
		req.Body.Close()
	}
}

// canRepeat reports whether the request's body can be sent again for another candidate.
func (o *outcome) canRepeat(req *http.Request) bool {
	return !o.sent || req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

// statusPriority lists the statuses that a Transport returns, least significant first. 401
// and 403 are about the credential. 404 is about the image, so it outranks 403. Some
// registries return 404 for everything that a user may not see, and a client that pushes
// first checks whether a blob exists. A 5xx outranks all other statuses.
var statusPriority = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests}

func (r refusal) severityRank() int {
	if r.Status == 0 {
		return -1 // no request was sent
	}
	if i := slices.Index(statusPriority, r.Status); i >= 0 {
		return i
	}
	return len(statusPriority)
}

// canRenew reports whether a new lookup may return a credential that the registry
// accepts.
func (o *outcome) canRenew(req *http.Request) bool {
	return o.err == nil && o.resp == nil && !o.final && o.canRepeat(req) && slices.ContainsFunc(o.refusals, func(r refusal) bool {
		return r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden
	})
}

// finalResponse returns the accepted response, or a response built from the most significant
// refusal.
func (o *outcome) finalResponse(req *http.Request) (*http.Response, error) {
	if o.resp != nil || o.err != nil {
		return o.resp, o.err
	}
	var best refusal
	for _, r := range o.refusals {
		if best.Err == nil || r.severityRank() > best.severityRank() || o.final {
			best = r
		}
	}
	known := o.final || best.Status >= http.StatusInternalServerError || best.severityRank() >= 0 && best.severityRank() < len(statusPriority)
	if !known || best.header == nil && best.Status == http.StatusNotFound {
		return nil, o.combinedError() // a response would tell clients something wrong about the image
	}
	return o.refusalResponse(req, best), nil
}

// combinedError returns an error that lists all refusals on one line.
func (o *outcome) combinedError() error {
	texts := make([]string, len(o.refusals))
	for i, r := range o.refusals {
		texts[i] = r.describe()
	}
	return errors.New(strings.Join(texts, "; "))
}

// describe contains the credential's name and the error.
func (r refusal) describe() string { return fmt.Sprintf("%s: %v", r.CredentialText(), r.Err) }

// refusalResponse returns a response with the status and headers of one refusal. Its
// body lists all refusals in the format of the distribution specification.
func (o *outcome) refusalResponse(req *http.Request, best refusal) *http.Response {
	header := best.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	for _, name := range []string{"Content-Encoding", "Content-Length", "Docker-Content-Digest", "Www-Authenticate"} {
		header.Del(name)
	}
	header.Set("Content-Type", "application/json")
	text := o.errorBody() // include it even for HEAD, so that the reason is not lost
	return &http.Response{
		Status: fmt.Sprintf("%d %s", best.Status, http.StatusText(best.Status)), StatusCode: best.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)), Request: req,
	}
}

// removeRateLimited removes the first refusal with status 429 and returns its candidate, or
// nil.
func (o *outcome) removeRateLimited(order []*candidate) *candidate {
	for i, r := range o.refusals {
		if r.Status == http.StatusTooManyRequests {
			o.refusals = slices.Delete(o.refusals, i, i+1)
			return order[i]
		}
	}
	return nil
}

// maxBodySize limits the size of the response body in bytes. oras-go reads no more than
// this, and shows nothing if it cannot decode the body.
const maxBodySize = 8 << 10

// errorBody returns a message for each refusal. Messages are shortened until all of them
// fit.
func (o *outcome) errorBody() (text []byte) {
	type diagnostic struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	for limit := maxBodySize; limit > 0; limit /= 2 {
		var body struct {
			Errors []diagnostic `json:"errors"`
		}
		for _, r := range o.refusals {
			body.Errors = append(body.Errors, diagnostic{cmp.Or(r.Code, errorCodes[r.Status], "UNKNOWN"), login.Truncate(r.describe(), limit)})
		}
		if text, _ = json.Marshal(body); len(text) <= maxBodySize {
			break
		}
	}
	return text
}

// errorCodes lists the error codes of the distribution specification.
var errorCodes = map[int]string{
	http.StatusUnauthorized:    "UNAUTHORIZED",
	http.StatusForbidden:       "DENIED",
	http.StatusTooManyRequests: "TOOMANYREQUESTS",
}

// recordError records a candidate's error. It reports whether the next candidate may be tried.
func (o *outcome) recordError(err error) bool {
	r, ok := errors.AsType[*refusedError](err)
	if !ok {
		o.err = err
		return false
	}
	o.refusals, o.final = append(o.refusals, r.refusal), r.final
	return !r.final
}
