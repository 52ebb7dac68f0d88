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

// outcome is what came of one request.
type outcome struct {
	resp     *http.Response // the answer, if it is a good one
	refusals []refusal
	final    bool  // the last of them is the answer
	err      error // what no credential mends

	sent bool // the request, with its body
}

// refusal is what came of one candidate.
type refusal struct {
	login.Try
	header http.Header // of the answer; nil if it was refused at the login
}

// next is the request for the next candidate.
func (o *outcome) next(req *http.Request) (*http.Request, error) {
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

// closeUnsent closes the body of a request that was not sent at all.
func (o *outcome) closeUnsent(req *http.Request) {
	if !o.sent && req.Body != nil {
		req.Body.Close()
	}
}

// canRepeat reports whether there is a body for another candidate.
func (o *outcome) canRepeat(req *http.Request) bool {
	return !o.sent || req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

// statuses are those that are answered, the one that says least first. What is
// wrong with a credential, or that it may not look, says nothing of the image. That it
// is not there does, even beside a 403: a registry that hides answers 404 to all. Who
// pushes looks for what is there first, and takes a 403 for the end. With a registry out of order
// nothing is known.
var statuses = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests}

func (r refusal) rank() int {
	if r.Status == 0 {
		return -1 // nothing was asked
	}
	for i, status := range statuses {
		if r.Status == status {
			return i
		}
	}
	return len(statuses)
}

// renewable reports whether other credentials may help.
func (o *outcome) renewable(req *http.Request) bool {
	if o.err != nil || o.resp != nil || o.final || !o.canRepeat(req) {
		return false
	}
	for _, r := range o.refusals {
		if r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden {
			return true
		}
	}
	return false
}

// answer is that to the request.
func (o *outcome) answer(req *http.Request) (*http.Response, error) {
	if o.resp != nil || o.err != nil {
		return o.resp, o.err
	}
	var said refusal
	for _, r := range o.refusals {
		if said.Err == nil || r.rank() > said.rank() || o.final {
			said = r
		}
	}
	known := o.final || said.Status >= http.StatusInternalServerError || said.rank() >= 0 && said.rank() < len(statuses)
	if !known || said.header == nil && said.Status == http.StatusNotFound {
		return nil, o.all() // not about the image, and not for programs that look for a status
	}
	return o.response(req, said), nil
}

// all is every refusal, in one line.
func (o *outcome) all() error {
	texts := make([]string, len(o.refusals))
	for i, r := range o.refusals {
		texts[i] = r.message()
	}
	return errors.New(strings.Join(texts, "; "))
}

// message names the credential and says what became of it.
func (r refusal) message() string { return fmt.Sprintf("%s: %v", r.Who(), r.Err) }

// response is an answer with the status and the headers of one refusal, and in
// the form of the distribution specification all of them.
func (o *outcome) response(req *http.Request, said refusal) *http.Response {
	header := said.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	for _, name := range []string{"Content-Encoding", "Content-Length", "Docker-Content-Digest", "Www-Authenticate"} {
		header.Del(name)
	}
	header.Set("Content-Type", "application/json")
	text := o.body() // to HEAD too: it comes from here, and who reads it learns why
	return &http.Response{
		Status: fmt.Sprintf("%d %s", said.Status, http.StatusText(said.Status)), StatusCode: said.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)), Request: req,
	}
}

// limited returns who was told to come back later, and forgets it.
func (o *outcome) limited(order []*candidate) *candidate {
	for i, r := range o.refusals {
		if r.Status == http.StatusTooManyRequests {
			o.refusals = slices.Delete(o.refusals, i, i+1)
			return order[i]
		}
	}
	return nil
}

// maxBody bounds the body of an answer, in bytes: clients read no more (oras-go),
// and show nothing at all of what they cannot read to the end.
const maxBody = 8 << 10

// body has a message for each refusal; where that is too much, the beginning of each.
func (o *outcome) body() (text []byte) {
	type diagnostic struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	for most := maxBody; most > 0; most /= 2 {
		var body struct {
			Errors []diagnostic `json:"errors"`
		}
		for _, r := range o.refusals {
			body.Errors = append(body.Errors, diagnostic{cmp.Or(r.Code, codes[r.Status], "UNKNOWN"), login.Bound(r.message(), most)})
		}
		if text, _ = json.Marshal(body); len(text) <= maxBody { // strings alone
			break
		}
	}
	return text
}

// codes are those of the distribution specification, where a registry gives none.
var codes = map[int]string{
	http.StatusUnauthorized:    "UNAUTHORIZED",
	http.StatusForbidden:       "DENIED",
	http.StatusTooManyRequests: "TOOMANYREQUESTS",
}

// add takes an error of a candidate, and reports whether the next may be tried.
func (o *outcome) add(err error) bool {
	r, ok := errors.AsType[*refusedError](err)
	if !ok {
		o.err = err
		return false
	}
	o.refusals, o.final = append(o.refusals, r.refusal), r.final
	return !r.final
}
