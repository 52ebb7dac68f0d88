// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package serve

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// limits counts what users hold at the same time, such as connections.
type limits struct {
	total, perUser int // perUser does not apply to privileged peers

	mu     sync.Mutex
	held   int
	byUser map[uint32]int
}

// acquire reports whether p may hold one more. If it returns true, the caller must call release.
func (l *limits) acquire(p *peer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held >= l.total || !p.isPrivileged() && l.byUser[p.uid] >= l.perUser {
		return false
	}
	if l.byUser == nil {
		l.byUser = map[uint32]int{}
	}
	l.held++
	l.byUser[p.uid]++
	return true
}

func (l *limits) release(p *peer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held--
	if l.byUser[p.uid]--; l.byUser[p.uid] == 0 {
		delete(l.byUser, p.uid)
	}
}

func (l *limits) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// Reasons for refused connections.
const (
	refusedUser  = "user"  // the user is not in the AllowList
	refusedLimit = "limit" // too many connections
	refusedPeer  = "peer"  // the kernel did not report the client
)

// listener accepts connections of allowed users, up to the limits. It closes all others at once, so
// that they use no memory and their clients run the plugin themselves.
type listener struct {
	*net.UnixListener
	allow   *AllowList
	limits  *limits
	refused func(reason string)

	forbidding atomic.Int32 // open connections of users that are not allowed
}

// forbidden is the response to users that are not allowed.
const forbidden = "HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 70\r\n\r\n" +
	`{"error":"this user may not use the credential service (--allow-uid)"}`

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		p, err := readPeer(c)
		switch {
		case err != nil:
			l.refused(refusedPeer)
		case !l.allow.allows(p):
			l.refused(refusedUser)
			l.forbid(c)
			continue
		case !l.limits.acquire(p):
			l.refused(refusedLimit)
		default:
			return &conn{UnixConn: c, peer: p, release: sync.OnceFunc(func() { l.limits.release(p) })}, nil
		}
		c.Close()
	}
}

// forbid responds to a user that is not allowed, after the first bytes of the request, because some
// clients ignore an earlier response.
func (l *listener) forbid(c *net.UnixConn) {
	if l.forbidding.Add(1) > maxForbidding {
		l.forbidding.Add(-1)
		c.Close()
		return
	}
	go func() {
		defer l.forbidding.Add(-1)
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(forbidTimeout))
		if _, err := c.Read(make([]byte, 1)); err != nil {
			return
		}
		_, _ = c.Write([]byte(forbidden))
		_ = c.CloseWrite()
		_, _ = io.CopyN(io.Discard, c, maxRequestHeader) // a client that cannot send its request reads no response
	}()
}

// Limits for connections of users that are not allowed.
const (
	forbidTimeout = time.Second
	maxForbidding = 16
)

// conn is an accepted connection.
type conn struct {
	*net.UnixConn
	peer    *peer
	release func()
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.release()
	return c.UnixConn.Close()
}
