// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cloud_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/keychain/cloud"
)

// testCloud is a fake cloud on loopback with a pod in it. Environment variables replace the
// addresses of the metadata servers.
type testCloud struct {
	t      *testing.T
	server *testcloud.Server
	// provider returns the provider for a pod with these environment variables in addition to the
	// cloud's.
	provider     func(environ map[string]string) cloud.Provider
	metadata     string // prefix of the paths on the node's metadata server
	passwordPath string // path of the last request, which returns the password
	image        string
	registry     func(i int) string // returns the host name of the i-th registry
	log          *slog.Logger
	logged       *buffer
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newTestCloud(t *testing.T) *testCloud {
	w := &testCloud{t: t, logged: &buffer{}}
	w.log = slog.New(slog.NewTextHandler(w.logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return w
}

// newKeyring returns a keyring with only the cloud's provider. The keyring calls a failing provider
// again at once.
func (w *testCloud) newKeyring(environ map[string]string) *regcred.Keyring {
	w.t.Helper()
	k := must.Get(cloud.New(regcred.Options{Logger: w.log, Backoff: -1}, w.provider(environ)))(w.t)
	w.t.Cleanup(func() { k.Close() })
	return k
}

// lookUpPassword looks up an image and returns the password of the first credential.
func (w *testCloud) lookUpPassword(k *regcred.Keyring, image string) (string, error) {
	w.t.Helper()
	result, err := k.Lookup(w.t.Context(), regcred.Request{Image: image})
	canary.AssertAbsent(w.t, "the log", w.logged.String())
	if err != nil {
		var failed *regcred.LookupError
		if !errors.As(err, &failed) {
			w.t.Errorf("got %T, want a failure of the provider", err)
		}
		canary.AssertAbsent(w.t, "the error", err.Error())
		return "", err
	}
	if len(result.Credentials) == 0 {
		w.t.Fatalf("%s: an anonymous pull would follow", image)
	}
	return result.Credentials[0].Password.Reveal(), nil
}

// metadataRequests returns the number of requests to the node's metadata server.
func (w *testCloud) metadataRequests() (n int) {
	for _, r := range w.server.Requests() {
		if strings.HasPrefix(r.Path, w.metadata) {
			n++
		}
	}
	return n
}

// checkError checks that a lookup fails with an error that contains all of want, and that the
// node's identity is not used.
func (w *testCloud) checkError(environ map[string]string, want ...string) {
	w.t.Helper()
	_, err := w.lookUpPassword(w.newKeyring(environ), w.image)
	if err == nil {
		w.t.Error("no error: somebody else's credential in place of the one that failed")
	}
	for _, part := range want {
		if err != nil && !strings.Contains(err.Error(), part) {
			w.t.Errorf("got error\n%v\nwant in it\n%s", err, part)
		}
	}
	if n := w.metadataRequests(); n != 0 {
		w.t.Errorf("the node's metadata server was called %d times", n)
	}
}

// writeTokenFile writes a file that other users can read, like a projected service account token. It returns
// the path.
func writeTokenFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	writeFile(t, path, text)
	return path
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o644))
}
