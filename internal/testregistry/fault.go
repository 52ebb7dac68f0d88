// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testregistry

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/testfault"
)

// FaultKind identifies the kind of a [Fault].
type FaultKind int

// Kinds of faults. The first three replace the response. The others change a successful
// response (status 200 to a GET).
const (
	FaultUnauthorized    FaultKind = iota // 401 with a challenge, even for valid credentials
	FaultTooManyRequests                  // 429, with Retry-After if Fault.RetryAfter is set
	FaultServerError                      // 500
	FaultSlow                             // waits Fault.Delay after Fault.Bytes bytes of the body, or before the header if Bytes is 0
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
	Times    int    // number of matching requests that then fail; 0 means one

	Delay      time.Duration // for FaultSlow; at most a minute, and ends early if the client disconnects
	RetryAfter time.Duration // for FaultTooManyRequests; rounded up to seconds
	Bytes      int64         // for FaultSlow and FaultTruncate: bytes of the body sent first
}

// Inject adds a fault. If several faults match a request, only the one added first is used,
// and only its After and Times count the request.
func (s *Server) Inject(f Fault) *testfault.InjectedFault {
	return s.faults.Inject(f, f.After, f.Times)
}

func (f Fault) matches(r *http.Request) bool {
	if f.Endpoint != EndpointAny && f.Endpoint != requestEndpoint(r) {
		return false
	}
	if f.changesBody() && r.Method != http.MethodGet && requestEndpoint(r) != EndpointToken {
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

// writeFault sends the response if the fault replaces it, and reports whether it did.
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

// respondChanged sends the correct response, which serve writes, with the fault's changes.
// It changes only successful responses.
func (f *Fault) respondChanged(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter)) {
	if f.Kind == FaultSlow && f.Bytes == 0 {
		testfault.Sleep(r.Context(), f.Delay)
		serve(w)
		return
	}
	correct := httptest.NewRecorder()
	serve(correct)
	body := correct.Body.Bytes()
	maps.Copy(w.Header(), correct.Header())
	changes := correct.Code == http.StatusOK && len(body) > 0
	if changes {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(correct.Code)
	if cut := min(int(f.Bytes), len(body)); changes {
		switch f.Kind {
		case FaultTruncate: // net/http closes the connection, because bytes are missing
			body = body[:cut]
		case FaultCorrupt:
			body = slices.Clone(body)
			body[len(body)/2] ^= 0xff
		case FaultSlow:
			_, _ = w.Write(body[:cut])
			_ = http.NewResponseController(w).Flush()
			testfault.Sleep(r.Context(), f.Delay)
			body = body[cut:]
		}
	}
	_, _ = w.Write(body) // fails only if the client has disconnected
}
