// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testkube

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// pipeListener accepts connections within the process, so that a server can run in a
// [testing/synctest] bubble. The read deadlines of grpc's bufconn are not reliable: a deadline
// that was removed can still end a later read, and net/http then cancels the request.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	close  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept returns the server's end of the next connection.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and dial.
func (l *pipeListener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

// Addr returns a placeholder.
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "testkube", Net: "pipe"} }

// dialClient returns the client's end of a new connection.
func (l *pipeListener) dialClient(ctx context.Context, network string) (net.Conn, error) {
	client, server := net.Pipe()
	var err error
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		err = &net.OpError{Op: "dial", Net: network, Addr: l.Addr(), Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	_, _ = client.Close(), server.Close()
	return nil, err
}
