// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/dispatch"
	"github.com/regcred/regcred/internal/dockerhelper"
	"github.com/regcred/regcred/internal/serve/client"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// statusError is an error with the status of its response.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return e.text }

// errNeedsRoot rejects tokens from other users.
var errNeedsRoot = &statusError{http.StatusForbidden, "only root may send a service account token"}

func newConflict(text string) error { return &statusError{http.StatusConflict, text} }

// replyForError returns the reply for an error. Errors of lookups contain no secrets.
func replyForError(err error) *reply {
	if e, ok := errors.AsType[*statusError](err); ok {
		return errorReply(e.status, "%s", e.text)
	}
	return errorReply(http.StatusBadGateway, "%v", err)
}

// loaded returns the current configuration if it is the one that the client would use.
func (s *Server) loaded(r *request) (*loadResult, error) {
	now := s.current.Load()
	dir := r.header.Get(client.HeaderGeneration)
	if dir != "" && (now.snapshot == nil || !isSamePath(now.snapshot.generation, dir)) {
		s.reload() // the event for the new generation may not have arrived yet
		now = s.current.Load()
	}
	if now.snapshot == nil {
		return nil, &statusError{http.StatusServiceUnavailable, "no configuration has been loaded: " + now.err.Error()}
	}
	if dir != "" && !isSamePath(now.snapshot.generation, dir) {
		return nil, newConflict("the service has loaded another generation")
	}
	for header, own := range map[string]string{client.HeaderConfig: s.Source.configPath(), client.HeaderBinDir: s.Source.pluginDir()} {
		if want := r.header.Get(header); want != "" && !isSamePath(want, own) {
			return nil, newConflict("the service uses another configuration or plugin directory")
		}
	}
	return now, nil
}

// isSamePath reports whether two paths are the same, or symlinks to the same file.
func isSamePath(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	x, err := os.Stat(a)
	y, other := os.Stat(b)
	return err == nil && other == nil && os.SameFile(x, y)
}

// credentials handles a kubelet's request.
func (s *Server) credentials(r *request) *reply {
	now, err := s.loaded(r)
	if err != nil {
		return replyForError(err)
	}
	var stdout, stderr bytes.Buffer
	type outcome struct {
		failures int
		err      error
	}
	var result atomic.Pointer[outcome] // plugin.Serve may return before the provider
	provider := plugin.ProviderFunc(func(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
		if !r.peer.isPrivileged() && !(req.ServiceAccountToken.IsZero() && len(req.ServiceAccountAnnotations) == 0) {
			result.Store(&outcome{err: errNeedsRoot})
			return nil, errNeedsRoot
		}
		resp, failures, err := s.respond(ctx, r, now, req)
		result.Store(&outcome{failures, err})
		return resp, err
	})
	code := plugin.Serve(r.ctx, provider, plugin.ServeOptions{Stdin: bytes.NewReader(r.body), Stdout: &stdout, Stderr: &stderr, Args: []string{}, Name: "regcred", Timeout: s.PluginTimeout + time.Second})
	out := result.Load()
	if out == nil {
		out = &outcome{}
	}
	answer := &reply{status: http.StatusOK, body: stdout.Bytes()}
	if out.failures > 0 {
		answer.header = http.Header{client.HeaderFailed: {strconv.Itoa(out.failures)}}
	}
	if code == 0 {
		return answer
	}
	text := strings.TrimSpace(strings.TrimPrefix(stderr.String(), "regcred: ")) // redacted by plugin.Serve
	e, isStatus := errors.AsType[*statusError](out.err)
	switch {
	case isStatus:
		return errorReply(e.status, "%s", text)
	case code == 2:
		return errorReply(http.StatusBadRequest, "%s", text)
	}
	return errorReply(http.StatusBadGateway, "%s", text)
}

// respond returns the response to a request for an entry, a provider, or any image. failures is the
// number of failed providers.
func (s *Server) respond(ctx context.Context, r *request, now *loadResult, req *plugin.Request) (resp *plugin.Response, failures int, err error) {
	if _, err := match.Repository(req.Image); err != nil {
		return nil, 0, &statusError{http.StatusBadRequest, err.Error()}
	}
	lookup := regcred.Request{Image: req.Image, Token: req.ServiceAccountToken, Annotations: req.ServiceAccountAnnotations}
	if r.header.Get("Cache-Control") == "no-cache" {
		lookup.NotBefore = time.Now()
	}
	if name := r.header.Get(client.HeaderEntry); name != "" {
		return s.respondForEntry(ctx, r, now, name, req)
	}
	if name := r.header.Get(client.HeaderProvider); name != "" {
		i := slices.IndexFunc(now.snapshot.config.Providers, func(p config.Provider) bool { return p.Name == name })
		if i < 0 || client.ProviderHash(&now.snapshot.config.Providers[i], s.Source.pluginDir()) != r.header.Get(client.HeaderProviderHash) {
			return nil, 0, newConflict("the service has another provider with this name, or none")
		}
		resp, err = s.callFresh(ctx, now, name, lookup)
		if err == nil && resp == nil {
			err = newConflict("the provider is not called for this request")
		}
		return resp, 0, err
	}
	res, err := s.lookupFresh(ctx, now, lookup)
	if err != nil {
		return nil, 0, err
	}
	return s.imageResponse(now, req.Image, res), countFailed(res.Attempts), nil
}

// respondForEntry returns the response of the dispatcher, which serves one entry of the kubelet's
// configuration. The plugins are called through the keyring.
func (s *Server) respondForEntry(ctx context.Context, r *request, now *loadResult, name string, req *plugin.Request) (resp *plugin.Response, failures int, err error) {
	entry, err := dispatch.FindEntry(now.snapshot.entries, name)
	if err != nil {
		return nil, 0, newConflict(err.Error())
	}
	p := &dispatch.Provider{
		Entry: entry, Config: now.snapshot.config, MaxStale: now.snapshot.maxStale,
		Plugin: func(c *config.Provider) plugin.Provider {
			return plugin.ProviderFunc(func(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
				return s.callFresh(ctx, now, c.Name, regcred.Request{Image: req.Image, Token: req.ServiceAccountToken, Annotations: req.ServiceAccountAnnotations})
			})
		},
		Observe: func(o dispatch.Outcome) {
			// A dispatcher that has stopped waiting, or gets a failure, runs the plugins itself and
			// counts that.
			if failures = countFailed(o.Attempts); failures == 0 && o.Err == nil && !r.gone() {
				s.count(o)
			}
		},
	}
	resp, err = p.GetCredentials(ctx, req)
	return resp, failures, err
}

// imageResponse returns a response for one image with the credentials in order.
func (s *Server) imageResponse(now *loadResult, image string, res *regcred.Result) *plugin.Response {
	var d time.Duration
	for i, a := range res.Attempts {
		left := max(min(time.Until(a.CachedUntil), s.maxStale(now)-a.Age), 0)
		switch {
		case a.Skipped != "":
		case i == 0 || left < d:
			d = left
		}
	}
	if countFailed(res.Attempts) > 0 {
		d = 0
	}
	resp := &plugin.Response{CacheKeyType: plugin.CacheImage, CacheDuration: &d}
	resp.Auth, _ = dispatch.OrderedAuth(image, res.Credentials)
	return resp
}

func countFailed(attempts []regcred.Attempt) (n int) {
	for _, a := range attempts {
		if a.Err != nil {
			n++
		}
	}
	return n
}

// lookup handles a request for ordered credentials.
func (s *Server) lookup(r *request) *reply {
	now, err := s.loaded(r)
	if err != nil {
		return replyForError(err)
	}
	var body client.LookupRequest
	if err := decodeStrict(r.body, &body); err != nil {
		return errorReply(http.StatusBadRequest, "%v", err)
	}
	if !r.peer.isPrivileged() && (body.Token != "" || len(body.Annotations) > 0) {
		return replyForError(errNeedsRoot)
	}
	requests, err := lookupRequests(&body)
	if err != nil {
		return errorReply(http.StatusBadRequest, "%v", err)
	}
	for i := range requests {
		if requests[i].Annotations = body.Annotations; body.Token != "" {
			requests[i].Token = plugin.NewSecret(body.Token)
		}
		if r.header.Get("Cache-Control") == "no-cache" {
			requests[i].NotBefore = time.Now()
		}
	}
	if body.Server != "" {
		return lookupReply(s.lookupForAsker(r, now, requests, true, 0))
	}
	return lookupReply(s.lookupFresh(r.ctx, now, requests[0]))
}

// lookupRequests returns the requests to try in order.
func lookupRequests(body *client.LookupRequest) ([]regcred.Request, error) {
	names := 0
	for _, s := range []string{body.Image, body.Registry, body.Server} {
		if s != "" {
			names++
		}
	}
	switch {
	case names != 1:
		return nil, errors.New("exactly one of image, registry and server is required")
	case body.Server != "":
		return dockerhelper.ParseServer(body.Server)
	}
	return []regcred.Request{{Image: body.Image, Registry: body.Registry}}, nil
}

// lookupForAsker looks up the first of the requests that has credentials. A process that asks again
// gets a response that is newer than its last request, if the plugin returns one.
func (s *Server) lookupForAsker(r *request, now *loadResult, requests []regcred.Request, parent bool, window time.Duration) (res *regcred.Result, err error) {
	res = &regcred.Result{}
	process, _ := askerOf(r.peer, parent) // zero if it is unknown: then all processes of the user count as one
	for _, req := range requests {
		k := askerKey{r.peer.uid, process, cmp.Or(req.Image, req.Registry)}
		asked := req
		if oldest := s.askers.notBefore(k, time.Now(), window); oldest.After(req.NotBefore) {
			asked.NotBefore = oldest
		}
		res, err = s.lookupFresh(r.ctx, now, asked)
		s.askers.record(k, time.Now())
		if err != nil || len(res.Credentials) > 0 {
			return res, err
		}
	}
	return res, nil
}

// lookupBody is the body of a response to a lookup.
type lookupBody struct {
	client.LookupResponse
	Attempts []regcred.Attempt `json:"attempts"`
}

// lookupReply returns the reply for the result of a lookup.
func lookupReply(res *regcred.Result, err error) *reply {
	body := lookupBody{LookupResponse: client.LookupResponse{Credentials: []client.Credential{}}, Attempts: []regcred.Attempt{}}
	status := http.StatusOK
	if err != nil {
		status, body.Error = http.StatusBadGateway, err.Error()
		switch {
		case errors.Is(err, regcred.ErrClosed):
			status = http.StatusServiceUnavailable
		case res == nil:
			status = http.StatusBadRequest
		}
	}
	var header http.Header
	if res != nil {
		body.Attempts = append(body.Attempts, res.Attempts...)
		for _, c := range res.Credentials {
			body.Credentials = append(body.Credentials, client.Credential{
				Match: c.Match, Username: c.Username, Password: c.Password.Reveal(), Provider: c.Provider, CachedUntil: c.CachedUntil,
			})
		}
		if n := countFailed(res.Attempts); n > 0 && err == nil {
			header = http.Header{client.HeaderFailed: {strconv.Itoa(n)}}
		}
	}
	answer := jsonReply(status, body)
	answer.header = header
	return answer
}

// report handles a report about a credential. A refused credential is removed from the cache.
func (s *Server) report(r *request) *reply {
	now, err := s.loaded(r)
	if err != nil {
		return replyForError(err)
	}
	var body client.ReportRequest
	if err := decodeStrict(r.body, &body); err != nil {
		return errorReply(http.StatusBadRequest, "%v", err)
	}
	if body.Outcome != client.OutcomeAccepted && body.Outcome != client.OutcomeRefused {
		return errorReply(http.StatusBadRequest, "outcome must be %q or %q", client.OutcomeAccepted, client.OutcomeRefused)
	}
	s.metrics.reports.WithLabelValues(body.Outcome).Inc()
	if body.Outcome == client.OutcomeAccepted {
		return jsonReply(http.StatusOK, client.ReportResponse{})
	}
	res, err := now.keyring.Lookup(cacheOnly(r.ctx), regcred.Request{Image: body.Image, Registry: body.Registry})
	if res == nil {
		return errorReply(http.StatusBadRequest, "%v", err)
	}
	dropped := false
	password := plugin.NewSecret(body.Password)
	for _, c := range res.Credentials {
		if c.Username == body.Username && c.Password.Equal(password) {
			now.keyring.Invalidate(c)
			dropped = true
		}
	}
	return jsonReply(http.StatusOK, client.ReportResponse{Dropped: dropped})
}

// decodeStrict decodes a JSON object. Its errors contain no values.
func decodeStrict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return errors.New("invalid request: field " + e.Field + " has the wrong type")
		}
		return errors.New("invalid request: the body must be one JSON object with known fields")
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("invalid request: the body contains more than one JSON object")
	}
	return nil
}
