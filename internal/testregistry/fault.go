// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testregistry

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/testfault"
)

// FaultKind identifies the kind of a [Fault].
type FaultKind int

// Kinds of faults. The first three replace the response. The others change a successful
// response (status 200 to a GET).
const (
	Unauthorized    FaultKind = iota // 401 with a challenge, also for valid credentials
	TooManyRequests                  // 429, with Retry-After if Fault.RetryAfter is set
	ServerError                      // 500
	Slow                             // waits Fault.Delay after Fault.Bytes body bytes; if 0, before the header
	Cut                              // closes the connection after Fault.Bytes bytes of the body
	Corrupt                          // changes one byte of the body
)

// Endpoint is a part of the registry's API.
type Endpoint int

// Endpoints that a [Fault] can be limited to.
const (
	Anywhere  Endpoint = iota
	Ping               // /v2/
	Tokens             // the token server
	Manifests          // /v2/<repository>/manifests/
	Blobs              // /v2/<repository>/blobs/
)

// Forever is the [Fault.Times] value for a fault that applies until it is removed.
const Forever = testfault.Forever

// Fault makes matching requests fail.
type Fault struct {
	Kind     FaultKind
	Endpoint Endpoint
	Path     string // if set, match only requests whose path contains this, such as a digest
	After    int    // matching requests that succeed first
	// At most a minute. The fault ends early if the client disconnects.
	Times int // number of matching requests that then fail; 0 means one

	Delay      time.Duration // for Slow; at most a minute, and ends early if the client disconnects
	RetryAfter time.Duration // for TooManyRequests; rounded up to seconds
	Bytes      int64         // for Slow and Cut: bytes of the body sent first
}

// Inject adds a fault. If several faults match a request, only the one added first
// applies and counts the request.
func (s *Server) Inject(f Fault) *testfault.Injected {
	return s.faults.Inject(f, f.After, f.Times)
}

func (f Fault) matches(r *http.Request) bool {
	if f.Endpoint != Anywhere && f.Endpoint != endpointOf(r) {
		return false
	}
	if f.spoilsBody() && r.Method != http.MethodGet {
		return false
	}
	return strings.Contains(r.URL.Path, f.Path)
}

func (f Fault) spoilsBody() bool { return f.Kind >= Slow }

func endpointOf(r *http.Request) Endpoint {
	switch path := r.URL.Path; {
	case path == tokenPath:
		return Tokens
	case path == "/v2/" || path == "/v2":
		return Ping
	case strings.Contains(path, "/manifests/"):
		return Manifests
	case strings.Contains(path, "/blobs/"):
		return Blobs
	}
	return Anywhere
}

// refuse sends the fault's response if the fault replaces the response.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, f *Fault) bool {
	switch f.Kind {
	case Unauthorized:
		s.challenge(w, r, "refused on purpose")
	case TooManyRequests:
		testfault.SetRetryAfter(w.Header(), f.RetryAfter)
		writeError(w, http.StatusTooManyRequests, "TOOMANYREQUESTS", "too many requests, on purpose")
	case ServerError:
		writeError(w, http.StatusInternalServerError, "UNKNOWN", "broken on purpose")
	default:
		return false
	}
	return true
}

// wrap returns a writer that applies the fault to the body.
func (f *Fault) wrap(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	sp := &faultWriter{ResponseWriter: w, ctx: r.Context(), fault: f}
	if f.Kind == Slow && f.Bytes == 0 {
		sp.wait()
	}
	return sp
}

// faultWriter writes a response and applies a fault to its body.
type faultWriter struct {
	http.ResponseWriter
	ctx     context.Context // the request's context; done when the client disconnects or the server closes
	fault   *Fault
	began   bool // the header has been sent
	good    bool // the status is 200
	written int64
	waited  bool
}

func (sp *faultWriter) WriteHeader(status int) {
	sp.began, sp.good = true, status == http.StatusOK
	sp.ResponseWriter.WriteHeader(status)
}

func (sp *faultWriter) Write(p []byte) (int, error) {
	if !sp.began {
		sp.WriteHeader(http.StatusOK)
	}
	if !sp.good || len(p) == 0 {
		return sp.ResponseWriter.Write(p)
	}
	switch sp.fault.Kind {
	case Cut:
		return sp.writeCut(p)
	case Corrupt:
		return sp.writeCorrupt(p)
	default:
		return sp.writeSlow(p)
	}
}

// writeCut drops the bytes after the cut. net/http closes a connection if the
// handler writes less than the Content-Length.
func (sp *faultWriter) writeCut(p []byte) (int, error) {
	keep := max(0, min(int64(len(p)), sp.fault.Bytes-sp.written))
	n, err := sp.ResponseWriter.Write(p[:keep])
	sp.written += int64(n)
	if err != nil {
		return n, err
	}
	return len(p), nil
}

func (sp *faultWriter) writeCorrupt(p []byte) (int, error) {
	if sp.written == 0 {
		p = slices.Clone(p)
		p[len(p)/2] ^= 0xff
	}
	n, err := sp.ResponseWriter.Write(p)
	sp.written += int64(n)
	return n, err
}

func (sp *faultWriter) writeSlow(p []byte) (int, error) {
	head := int64(0)
	if !sp.waited {
		head = max(0, min(int64(len(p)), sp.fault.Bytes-sp.written))
		n, err := sp.ResponseWriter.Write(p[:head])
		sp.written += int64(n)
		if err != nil || sp.written < sp.fault.Bytes {
			return n, err
		}
		_ = http.NewResponseController(sp.ResponseWriter).Flush()
		sp.wait()
	}
	n, err := sp.ResponseWriter.Write(p[head:])
	return int(head) + n, err
}

// wait sleeps for the delay, or until the client disconnects or the server closes.
func (sp *faultWriter) wait() {
	sp.waited = true
	testfault.Wait(sp.ctx, sp.fault.Delay)
}
