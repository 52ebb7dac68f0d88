// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package serve is the credential service of a node. It runs credential provider plugins for all
// programs on the node that pull images, with one cache, and responds over HTTP on a unix socket.
//
//	s := &serve.Server{Source: serve.Source{StateDir: generation.DefaultDir}, Logger: logger}
//	l, err := serve.Listen(client.DefaultSocket, s.Allow)
//	if err == nil {
//		err = s.Serve(ctx, l)
//	}
//
// The service is never a new way to fail: clients (package client) run the plugin themselves if the
// service is missing, hangs or returns an error. A client that disconnects does not cancel the plugin,
// so that its next request finds the response in the cache.
//
// Passwords are written only to response bodies.
package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/regcred/regcred/internal/dispatch"
	"github.com/regcred/regcred/internal/runstats"
	"github.com/regcred/regcred/internal/serve/client"
)

// Server is the service. Set the exported fields before calling [Server.Serve].
type Server struct {
	Source        Source
	Environ       []string // environment of the plugins
	PluginTimeout time.Duration
	Allow         AllowList
	MaxStale      time.Duration // maximum age of a cached response, unless its plugin fails; 0 means the generation's setting or 5 minutes
	CountDir      string        // directory of the dispatcher's run counts (package tally); "" disables counting
	Logger        *slog.Logger

	MaxConnections        int // 0 means 1024
	MaxConnectionsPerUser int // for users other than root; 0 means 64

	metrics     *metrics
	connections limits
	lookups     limits // lookups continue after their connection is closed
	askers      askers
	counts      chan runstats.Batch

	reloading sync.Mutex
	current   atomic.Pointer[loadResult]
}

const (
	// refreshAhead is the remaining lifetime of a response below which its use starts a refresh.
	refreshAhead = 15 * time.Minute

	readTimeout  = 10 * time.Second // for a whole request
	writeTimeout = 10 * time.Second // for a response, after it is complete
	idleTimeout  = 30 * time.Second

	maxRequestHeader = 8 << 10 // bytes
	maxRequestBody   = 1 << 20 // bytes: a token, and 256 KiB of annotations

	// shutdownTimeout limits how long a stopping service waits for requests. The clients then run
	// the plugins themselves.
	shutdownTimeout = 4 * time.Second
)

// Start loads the configuration. It returns an error if the configuration is invalid, but the server
// can still be used: it loads the configuration when it becomes valid.
func (s *Server) Start() error {
	s.connections = limits{total: s.MaxConnections, perUser: s.MaxConnectionsPerUser}
	if s.connections.total <= 0 {
		s.connections.total = 1024
	}
	if s.connections.perUser <= 0 {
		s.connections.perUser = 64
	}
	s.lookups.total, s.lookups.perUser = s.connections.total, s.connections.perUser
	s.metrics = newMetrics(s.connections.count)
	s.counts = make(chan runstats.Batch, 256)
	if s.PluginTimeout <= 0 {
		s.PluginTimeout = dispatch.DefaultTimeout
	}
	s.Environ = pluginEnviron(s.Environ)
	s.reload()
	return s.current.Load().err
}

// pluginEnviron returns the environment of the plugins. A plugin must not call the service, because
// it would wait for itself.
func pluginEnviron(environ []string) []string {
	own := []string{client.SocketEnv, "NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "WATCHDOG_USEC", "WATCHDOG_PID"}
	environ = slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(own, name)
	})
	return append(environ, client.SocketEnv+"="+client.SocketNone)
}

// Serve accepts connections until ctx is done. It closes l. [Server.Start] must have been called.
func (s *Server) Serve(ctx context.Context, l *net.UnixListener) error {
	watchCtx, stopWatch := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { s.watch(watchCtx) })
	background.Go(func() { s.writeCounts(watchCtx) })
	defer background.Wait()
	defer stopWatch()
	server := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      s.PluginTimeout + 2*writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxRequestHeader,
		ErrorLog:          slog.NewLogLogger(s.Logger.Handler(), slog.LevelDebug),
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return withPeer(ctx, c.(*conn).peer) },
	}
	ended := make(chan error, 1)
	refused := func(reason string) { s.metrics.refused.WithLabelValues(reason).Inc() }
	go func() {
		ended <- server.Serve(&listener{UnixListener: l, allow: &s.Allow, limits: &s.connections, refused: refused})
	}()
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
		s.Logger.Info("stopping")
		wait, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
		defer cancel()
		if server.Shutdown(wait) != nil {
			s.Logger.Warn("some requests did not end in time; their clients run the plugins themselves", "timeout", shutdownTimeout)
		}
		err = <-ended
	}
	server.Close()
	if k := s.current.Load().keyring; k != nil {
		k.Close()
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// countTimeout limits the time for adding to the run counts.
const countTimeout = time.Second

// count adds the result of a dispatcher's request to the run counts, in the background.
func (s *Server) count(o dispatch.Outcome) {
	if s.CountDir == "" {
		return
	}
	select {
	case s.counts <- o.CounterBatch():
	default: // more requests than a kubelet sends
	}
}

func (s *Server) writeCounts(ctx context.Context) {
	for {
		select {
		case b := <-s.counts:
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout)
			if err := runstats.AddBatch(ctx, s.CountDir, b); err != nil {
				s.Logger.Debug("the run is not counted", "err", err)
			}
			cancel()
		case <-ctx.Done():
			return
		}
	}
}
