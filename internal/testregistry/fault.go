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
	FaultUnauthorized    FaultKind = iota // 401 with a challenge, also for valid credentials
	FaultTooManyRequests                  // 429, with Retry-After if Fault.RetryAfter is set
	FaultServerError                      // 500
	FaultSlow                             // waits Fault.Delay after Fault.Bytes body bytes; if 0, before the header
	FaultTruncate                         // closes the connection after Fault.Bytes bytes of the body
	FaultCorrupt                          // changes one byte of the body
)

// Endpoint is a part of the registry's API.
type Endpoint int

// Endpoints that a [Fault] can be limited to.
const (
	EndpointAny       Endpoint = iota
	EndpointPing               // /v2/
	EndpointToken              // the token server
	EndpointManifests          // /v2/<repository>/manifests/
	EndpointBlobs              // /v2/<repository>/blobs/
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

	Delay      time.Duration // for FaultSlow; at most a minute, and ends early if the client disconnects
	RetryAfter time.Duration // for FaultTooManyRequests; rounded up to seconds
	Bytes      int64         // for FaultSlow and FaultTruncate: bytes of the body sent first
}

// Inject adds a fault. If several faults match a request, only the one added first
// applies and counts the request.
func (s *Server) Inject(f Fault) *testfault.InjectedFault {
	return s.faults.Inject(f, f.After, f.Times)
}

func (f Fault) matches(r *http.Request) bool {
	if f.Endpoint != EndpointAny && f.Endpoint != requestEndpoint(r) {
		return false
	}
	if f.changesBody() && r.Method != http.MethodGet {
		return false
	}
	return strings.Contains(r.URL.Path, f.Path)
}

func (f Fault) changesBody() bool { return f.Kind >= FaultSlow }

func requestEndpoint(r *http.Request) Endpoint {
	switch path := r.URL.Path; {
	case path == tokenPath:
		return EndpointToken
	case path == "/v2/" || path == "/v2":
		return EndpointPing
	case strings.Contains(path, "/manifests/"):
		return EndpointManifests
	case strings.Contains(path, "/blobs/"):
		return EndpointBlobs
	}
	return EndpointAny
}

// writeFault sends the fault's response if the fault replaces the response.
func (s *Server) writeFault(w http.ResponseWriter, r *http.Request, f *Fault) bool {
	switch f.Kind {
	case FaultUnauthorized:
		s.sendChallenge(w, r, "refused on purpose")
	case FaultTooManyRequests:
		testfault.SetRetryAfter(w.Header(), f.RetryAfter)
		writeError(w, http.StatusTooManyRequests, "TOOMANYREQUESTS", "too many requests, on purpose")
	case FaultServerError:
		writeError(w, http.StatusInternalServerError, "UNKNOWN", "broken on purpose")
	default:
		return false
	}
	return true
}

// wrapWriter returns a writer that applies the fault to the body.
func (f *Fault) wrapWriter(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	sp := &faultWriter{ResponseWriter: w, ctx: r.Context(), fault: f}
	if f.Kind == FaultSlow && f.Bytes == 0 {
		sp.sleepDelay()
	}
	return sp
}

// faultWriter writes a response and applies a fault to its body.
type faultWriter struct {
	http.ResponseWriter
	ctx        context.Context // the request's context; done when the client disconnects or the server closes
	fault      *Fault
	headerSent bool // the header has been sent
	isOK       bool // the status is 200
	written    int64
	waited     bool
}

func (sp *faultWriter) WriteHeader(status int) {
	sp.headerSent, sp.isOK = true, status == http.StatusOK
	sp.ResponseWriter.WriteHeader(status)
}

func (sp *faultWriter) Write(p []byte) (int, error) {
	if !sp.headerSent {
		sp.WriteHeader(http.StatusOK)
	}
	if !sp.isOK || len(p) == 0 {
		return sp.ResponseWriter.Write(p)
	}
	switch sp.fault.Kind {
	case FaultTruncate:
		return sp.writeCut(p)
	case FaultCorrupt:
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
		sp.sleepDelay()
	}
	n, err := sp.ResponseWriter.Write(p[head:])
	return int(head) + n, err
}

// sleepDelay sleeps for the delay, or until the client disconnects or the server closes.
func (sp *faultWriter) sleepDelay() {
	sp.waited = true
	testfault.Sleep(sp.ctx, sp.fault.Delay)
}
