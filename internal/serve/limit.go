// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package serve

import (
	"net"
	"sync"
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
			// This does not block, because the socket's buffer is empty.
			_ = c.SetWriteDeadline(time.Now().Add(time.Millisecond))
			_, _ = c.Write([]byte(forbidden))
		case !l.limits.acquire(p):
			l.refused(refusedLimit)
		default:
			return &conn{UnixConn: c, peer: p, release: sync.OnceFunc(func() { l.limits.release(p) })}, nil
		}
		c.Close()
	}
}

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
