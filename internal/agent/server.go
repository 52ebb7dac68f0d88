// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Serve answers on a listener until ctx ends: /metrics, and /healthz, which is 200 as
// long as the agent looks after its node, however that stands.
func (a *Agent) Serve(ctx context.Context, l net.Listener, metrics *prometheus.Registry) error {
	server := &http.Server{
		Handler:           a.handler(metrics),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    8 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // what a scanner sends is none of the log's business
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// maxScrapes is how many may ask at once.
const maxScrapes = 4

func (a *Agent) handler(metrics *prometheus.Registry) http.Handler {
	scrape := promhttp.HandlerFor(metrics, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, Timeout: 5 * time.Second})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", scrape) // and HEAD
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if !a.alive() {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte("the node is not being checked\n"))
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	return mux
}
