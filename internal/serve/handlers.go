// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/regcred/regcred/internal/serve/client"
)

// handler returns the HTTP handler of all paths.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST "+client.PathCredentials, &endpoint{s, (*Server).credentials, true})
	mux.Handle("POST "+client.PathLookup, &endpoint{s, (*Server).lookup, true})
	mux.Handle("POST "+client.PathReport, &endpoint{s, (*Server).report, true})
	mux.Handle("GET /auth", &endpoint{s, (*Server).overlaybdAuth, false}) // overlaybd may not support interim responses
	for path, h := range map[string]func(*Server) *reply{"/healthz": (*Server).healthz, "/readyz": (*Server).readyz} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { s.write(w, r, h(s)) })
	}
	mux.Handle("GET /metrics", s.metrics.handler())
	return mux
}

// request is a request whose body has been read.
type request struct {
	ctx    context.Context // not canceled when the client disconnects
	peer   *peer
	header http.Header
	query  string
	body   []byte
	gone   func() bool // whether the client has disconnected
}

// reply is a complete response.
type reply struct {
	status int
	header http.Header // may be nil
	body   []byte
}

// jsonReply returns a reply with a JSON body.
func jsonReply(status int, body any) *reply {
	data, err := json.Marshal(body)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{"error":"the response cannot be encoded"}`)
	}
	return &reply{status: status, body: append(data, '\n')}
}

// errorReply returns a reply with an error message.
func errorReply(status int, format string, args ...any) *reply {
	return jsonReply(status, client.ErrorResponse{Error: fmt.Sprintf(format, args...)})
}

// endpoint reads requests and writes replies. If handle takes longer than interimDelay, it sends an
// interim response, so that the client knows that the service is running.
type endpoint struct {
	server  *Server
	handle  func(*Server, *request) *reply
	interim bool
}

// interimDelay is the time in which a cached response is returned.
const interimDelay = 3 * time.Millisecond

// ServeHTTP implements [http.Handler].
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBody))
	if err != nil {
		status := http.StatusBadRequest
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			status = http.StatusRequestEntityTooLarge
		}
		e.server.write(w, r, errorReply(status, "read the request: the body is incomplete or larger than %d bytes", maxRequestBody))
		return
	}
	_ = control.SetReadDeadline(time.Time{}) // otherwise the context is canceled after readTimeout
	p := peerFrom(r.Context())
	if !e.server.lookups.acquire(p) {
		e.server.write(w, r, errorReply(http.StatusServiceUnavailable, "too many requests at the same time"))
		return
	}
	done := make(chan *reply, 1)
	go func() {
		defer e.server.lookups.release(p)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), e.server.PluginTimeout+time.Second)
		defer cancel()
		done <- e.call(&request{ctx, p, r.Header, r.URL.RawQuery, body, func() bool { return r.Context().Err() != nil }})
	}()
	timer := time.NewTimer(interimDelay)
	defer timer.Stop()
	for {
		select {
		case answer := <-done:
			_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
			e.server.write(w, r, answer)
			return
		case <-timer.C:
			timer.Reset(client.HeartbeatInterval)
			if e.interim && r.ProtoAtLeast(1, 1) {
				_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
				w.WriteHeader(http.StatusProcessing)
			}
		case <-r.Context().Done():
			return // the plugin continues
		}
	}
}

// call calls the handler. A panic affects only this request.
func (e *endpoint) call(r *request) (answer *reply) {
	defer func() {
		if recover() != nil { // the value could contain a secret
			answer = errorReply(http.StatusInternalServerError, "internal error")
		}
	}()
	return e.handle(e.server, r)
}

// write writes a reply.
func (s *Server) write(w http.ResponseWriter, r *http.Request, answer *reply) {
	s.metrics.requests.WithLabelValues(r.URL.Path, strconv.Itoa(answer.status)).Inc()
	h := w.Header()
	for name, values := range answer.header {
		h[name] = values
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(answer.body)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body) // if the client has disconnected, it has no use for an error
}

func (s *Server) healthz() *reply {
	return jsonReply(http.StatusOK, map[string]string{"status": "ok"})
}

// readiness is the body of /readyz.
type readiness struct {
	Ready       bool      `json:"ready"`
	Generation  string    `json:"generation,omitempty"`
	ConfigHash  string    `json:"configHash,omitempty"`
	Loaded      time.Time `json:"loaded,omitzero"`
	ReloadError string    `json:"reloadError,omitempty"` // why the previous configuration is used
}

func (s *Server) readyz() *reply {
	now := s.current.Load()
	r, status := readiness{Ready: now.snapshot != nil}, http.StatusOK
	if now.err != nil {
		r.ReloadError = now.err.Error()
	}
	if now.snapshot == nil {
		status = http.StatusServiceUnavailable
	} else {
		r.Generation, r.ConfigHash, r.Loaded = now.snapshot.generation, now.snapshot.hash, now.snapshot.loaded
	}
	return jsonReply(status, r)
}
