// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

// progressTimer cancels a request on which no byte moves in either direction. Until the response
// arrives, it counts only time that the server is responsible for: neither time in which the
// request waits for a free connection or HTTP/2 stream, nor time in which the caller produces the
// body.
type progressTimer struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	host   string
	before time.Duration // limit before the response

	mu        sync.Mutex
	timer     *time.Timer
	limit     time.Duration // time without progress; 0 means no limit
	producing bool          // the caller produces the next part of the request body
	attempts  int           // how often the inner transport has requested a connection
	continues bool          // the server has accepted the request body with status 100
	responded bool
	timeout   error // set when the request was canceled
}

// newProgressTimer starts a timer. An inner transport without support for [httptrace] never reports
// that it waits for a connection, so such time counts.
func newProgressTimer(ctx context.Context, host string, before time.Duration) (context.Context, *progressTimer) {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &progressTimer{ctx: ctx, cancel: cancel, host: host, before: before, limit: before}
	p.timer = time.AfterFunc(before, p.cancelIfIdle)
	waiting, sending := func() { p.setRequestLimit(0) }, func() { p.setRequestLimit(p.before) }
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:           func(string) { p.countAttempt(); waiting() },
		DNSStart:          func(httptrace.DNSStartInfo) { sending() },
		ConnectStart:      func(string, string) { sending() },
		TLSHandshakeStart: sending,
		GotConn:           func(httptrace.GotConnInfo) { waiting() }, // HTTP/2 may still wait for a stream
		WroteHeaders:      sending,
		// Not Got1xxResponse: it would disable net/http's limit on these responses. They do
		// not count as progress, because a server can send them forever.
		Got100Continue:       p.continueUpload,
		WroteRequest:         func(httptrace.WroteRequestInfo) { sending() },
		GotFirstResponseByte: sending,
	}), p
}

// cancelIfIdle cancels the request, unless the timer was set again in the meantime.
func (p *progressTimer) cancelIfIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limit == 0 || p.producing && !p.responded {
		return
	}
	p.timeout = fmt.Errorf("received no data from %q for %s: %w", p.host, p.limit, errIdleTimeout)
	p.cancel(p.timeout)
}

// restart starts the timer again. It is called with the lock held.
func (p *progressTimer) restart() {
	if p.limit == 0 || p.producing && !p.responded {
		p.timer.Stop()
	} else {
		p.timer.Reset(p.limit)
	}
}

// setLimit is called when the response has arrived, and before and after each read of it.
func (p *progressTimer) setLimit(limit time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit, p.responded = limit, true
	p.restart()
}

// maxAttempts limits how many connections of a request count as progress. net/http sends a request
// again for as long as the server closes the connections without a response.
const maxAttempts = 10

// countAttempt starts the last period if there were too many attempts.
func (p *progressTimer) countAttempt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.attempts++; p.attempts == maxAttempts+1 && !p.responded {
		p.limit = p.before
		p.restart()
	}
}

// setRequestLimit has no effect after the response, because connections may be
// established even later.
func (p *progressTimer) setRequestLimit(limit time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.responded && p.attempts <= maxAttempts {
		p.limit = limit
		p.restart()
	}
}

// continueUpload is called when the server accepts the request body. Only the first call counts,
// because a server can repeat the status.
func (p *progressTimer) continueUpload() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.continues && !p.responded {
		p.continues, p.limit = true, p.before
		p.restart()
	}
}

// timeoutOr returns the timeout if it caused err, and err otherwise.
func (p *progressTimer) timeoutOr(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timeout != nil && context.Cause(p.ctx) == p.timeout {
		return p.timeout
	}
	return err
}

// release releases the timer and the context.
func (p *progressTimer) release() {
	p.setLimit(0)
	p.cancel(nil)
}

// trackUpload makes reads of the request's body count as progress, also if the inner transport sends
// the body again.
func (p *progressTimer) trackUpload(req *http.Request) {
	if req.Body == nil || req.Body == http.NoBody {
		return
	}
	req.Body = &requestBody{req.Body, p}
	if getBody := req.GetBody; getBody != nil {
		req.GetBody = func() (io.ReadCloser, error) {
			body, err := getBody()
			if err != nil {
				return nil, err
			}
			return &requestBody{body, p}, nil
		}
	}
}

// requestBody reports reads to a progressTimer.
type requestBody struct {
	io.ReadCloser
	progress *progressTimer
}

func (b *requestBody) Read(p []byte) (int, error) {
	b.progress.setProducing(true)
	defer b.progress.setProducing(false)
	return b.ReadCloser.Read(p)
}

func (p *progressTimer) setProducing(producing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.producing = producing
	if !producing || !p.responded {
		p.restart()
	}
}
