// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube_test

import (
	"bytes"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testkube"
	"github.com/regcred/regcred/kube"
)

const nodeName = "system:node:node-1"

// startServer starts an API server on loopback.
func startServer(t testing.TB, opts testkube.Options) *testkube.Server {
	t.Helper()
	api := must.Get(testkube.New(opts))(t)
	t.Cleanup(api.Close)
	return api
}

// startPipe starts an API server that can be used in a testing/synctest bubble.
func startPipe(t *testing.T) *testkube.Server {
	t.Helper()
	return startServer(t, testkube.Options{Pipe: true})
}

// newClient returns a client that authenticates as a user.
func newClient(t testing.TB, api *testkube.Server, user string, opts kube.Options) *kube.Client {
	t.Helper()
	cfg := &rest.Config{Host: api.URL(), BearerToken: api.Token(user)}
	if cfg.CAData = api.CA(); cfg.CAData == nil {
		cfg.Dial = api.Dial
	}
	return must.Get(kube.New(cfg, opts))(t)
}

// addAccountAndPod adds a service account, and a pod on node-1 that uses it. It returns a token
// request for the pod.
func addAccountAndPod(api *testkube.Server) regcred.TokenRequest {
	account := api.AddServiceAccount(testkube.ServiceAccount{
		Namespace: "ci", Name: "builder",
		Annotations: map[string]string{"example.com/role": "reader"},
		PullSecrets: []string{"one", "", "two"},
	})
	pod := api.AddPod(testkube.Pod{Namespace: "ci", Name: "web", ServiceAccount: "builder", Node: "node-1", PullSecrets: []string{"one"}})
	return regcred.TokenRequest{
		Namespace: "ci", ServiceAccount: "builder", ServiceAccountUID: account,
		PodName: "web", PodUID: pod, Audience: "reg.example",
	}
}

// wantError checks the type and text of an error, and that it contains no secret.
func wantError(t *testing.T, err error, parts ...string) *kube.Error {
	t.Helper()
	var e *kube.Error
	if !errors.As(err, &e) {
		t.Fatalf("got the error %v, want a *kube.Error", err)
	}
	text := err.Error()
	canary.AssertAbsent(t, "the error", text)
	if strings.Contains(text, "open-sesame") || strings.Contains(text, "\n") {
		t.Errorf("the error has a body or several lines: %s", text)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("got the error\n%s\nwant in it\n%s", text, part)
		}
	}
	return e
}

// wantCalls checks the number of requests with this verb and resource.
func wantCalls(t *testing.T, api *testkube.Server, verb, resource string, want int) {
	t.Helper()
	if got := api.CountRequests(verb, resource); got != want {
		t.Errorf("the API server got %d times %s %s, want %d", got, verb, resource, want)
	}
}

// logBuffer records the lines of a log.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) newLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// countLines returns the number of log lines that contain part.
func (l *logBuffer) countLines(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

// heapBytes returns the number of heap bytes in use after a garbage collection.
func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
