// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testkube

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/regcred/regcred/internal/testfault"
)

// FaultKind identifies the kind of a [Fault].
type FaultKind int

// Kinds of faults. The kinds up to FaultBadObject replace the response. The others delay or
// change the correct response.
const (
	FaultUnauthorized    FaultKind = iota // 401
	FaultForbidden                        // 403 for a missing permission, or with Fault.Message if set
	FaultNotFound                         // 404
	FaultConflict                         // 409
	FaultGone                             // 410
	FaultTooManyRequests                  // 429, with Retry-After if Fault.RetryAfter is set
	FaultServerError                      // 500
	FaultUnavailable                      // 503, with Retry-After if Fault.RetryAfter is set
	FaultConnReset                        // closes the connection without a response
	FaultHang                             // no response until Server.ReleaseHanging, or until the client disconnects
	FaultHugeBody                         // 200 and Fault.Bytes bytes of JSON; 64 MiB if 0
	FaultHTMLBody                         // 200 and an HTML page
	FaultBadObject                        // 200 and JSON that is not a Kubernetes object
	FaultSlow                             // the correct response after Fault.Delay
	FaultTruncate                         // the first half of the correct response, then closes the connection
	FaultReplaceText                      // the correct response with Fault.Old replaced by Fault.New
)

// Forever is the [Fault.Times] value for a fault that applies until it is removed.
const Forever = testfault.Forever

// Fault makes matching requests fail.
type Fault struct {
	Kind     FaultKind
	Verb     string // "" means any
	Resource string // with any subresource, as in "serviceaccounts/token"; "" means any
	Name     string // "" means any
	After    int    // matching requests that succeed first
	Times    int    // number of matching requests that then fail; 0 means one

	Message    string        // for the kinds with a status
	RetryAfter time.Duration // rounded up to seconds
	Delay      time.Duration // at most a minute; ends early if the client disconnects
	Bytes      int
	Old, New   string
}

// Inject adds a fault. If several faults match a request, only the one added first is used,
// and only its After and Times count the request.
func (s *Server) Inject(f Fault) *testfault.InjectedFault {
	return s.faults.Inject(f, f.After, f.Times)
}

// ReleaseHanging lets all requests that hang because of FaultHang continue with the correct
// response.
func (s *Server) ReleaseHanging() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.release)
	s.release = make(chan struct{})
}

func (f Fault) matches(req Request) bool {
	return (f.Verb == "" || f.Verb == req.Verb) && (f.Resource == "" || f.Resource == req.Resource) && (f.Name == "" || f.Name == req.Name)
}

// writeFault sends the response if the fault replaces it. It reports whether the request
// needs no further response.
func (s *Server) writeFault(w http.ResponseWriter, r *http.Request, req Request, f *Fault) bool {
	switch f.Kind {
	case FaultConnReset:
		panic(http.ErrAbortHandler)
	case FaultHang:
		return !s.waitForRelease(r)
	case FaultSlow:
		return !testfault.Sleep(r.Context(), f.Delay)
	case FaultHugeBody:
		f.writeHuge(w)
	case FaultHTMLBody:
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html><body>Please log in: open-sesame</body></html>")
	case FaultBadObject:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"login": "open-sesame"}`)
	default:
		return f.writeStatus(w, req)
	}
	return true
}

// waitForRelease waits for ReleaseHanging. It returns false if the client has disconnected.
func (s *Server) waitForRelease(r *http.Request) bool {
	s.mu.Lock()
	release := s.release
	s.mu.Unlock()
	select {
	case <-release:
		return true
	case <-r.Context().Done():
		return false
	}
}

func (f *Fault) writeHuge(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"metadata":{"annotations":{"filler":"`)
	block := bytes.Repeat([]byte("x"), 64<<10)
	for left := cmp.Or(f.Bytes, 64<<20); left > 0; left -= len(block) {
		if _, err := w.Write(block[:min(left, len(block))]); err != nil {
			return
		}
	}
	fmt.Fprint(w, `"}}}`)
}

// writeStatus sends the fault's API error. It returns false if the fault has none.
func (f *Fault) writeStatus(w http.ResponseWriter, req Request) bool {
	err := f.statusError(req)
	if err == nil {
		return false
	}
	if f.Message != "" {
		err.ErrStatus.Message = f.Message
	}
	testfault.SetRetryAfter(w.Header(), f.RetryAfter)
	writeError(w, err)
	return true
}

// statusError returns the API error of a fault, or nil.
func (f *Fault) statusError(req Request) *apierrors.StatusError {
	resource, _, _ := strings.Cut(req.Resource, "/")
	switch f.Kind {
	case FaultUnauthorized:
		return apierrors.NewUnauthorized("Unauthorized")
	case FaultForbidden:
		return newForbiddenError(req, fmt.Sprintf("User %q cannot %s resource %q in API group \"\" in the namespace %q", req.User, req.Verb, req.Resource, req.Namespace))
	case FaultNotFound:
		return notFound(resource, req.Name)
	case FaultConflict:
		return apierrors.NewConflict(schema.GroupResource{Resource: resource}, req.Name, errors.New("it has changed"))
	case FaultGone:
		return apierrors.NewResourceExpired("too old resource version")
	case FaultTooManyRequests:
		return apierrors.NewTooManyRequests("Too many requests, please try again later.", 0)
	case FaultServerError:
		return apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
	case FaultUnavailable:
		return apierrors.NewServiceUnavailable("apiserver is shutting down")
	}
	return nil
}

// respondChanged sends the correct response, which serve writes, with the fault's changes.
func (f *Fault) respondChanged(w http.ResponseWriter, serve func(http.ResponseWriter)) {
	if f.Kind != FaultTruncate && f.Kind != FaultReplaceText {
		serve(w)
		return
	}
	correct := httptest.NewRecorder()
	serve(correct)
	body := correct.Body.Bytes()
	maps.Copy(w.Header(), correct.Header())
	w.WriteHeader(correct.Code)
	if f.Kind == FaultReplaceText {
		_, _ = w.Write(bytes.ReplaceAll(body, []byte(f.Old), []byte(f.New)))
		return
	}
	_, _ = w.Write(body[:len(body)/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}
