// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package orasclient

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"oras.land/oras-go/v2/content"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/keychain"
)

// TestResponseTimeout verifies that the Keychain's timeouts limit an upload only while the registry does not respond.
func TestResponseTimeout(t *testing.T) {
	blob := bytes.Repeat([]byte("x"), 10<<10)
	for _, tt := range []struct {
		name  string
		opts  keychain.Options
		hangs bool
	}{
		{"slow source", keychain.Options{ResponseTimeout: 500 * time.Millisecond, IdleTimeout: 500 * time.Millisecond}, false},
		{"registry hangs", keychain.Options{ResponseTimeout: 100 * time.Millisecond, IdleTimeout: time.Minute}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			done := make(chan struct{})
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n, _ := io.Copy(io.Discard, r.Body)
				switch _, _, ok := r.BasicAuth(); {
				case !ok:
					w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
					w.WriteHeader(http.StatusUnauthorized)
				case r.Method == http.MethodPost:
					w.Header().Set("Location", "/v2/copies/app/blobs/uploads/1")
					w.WriteHeader(http.StatusAccepted)
				case tt.hangs:
					<-done
				case n == int64(len(blob)):
					w.WriteHeader(http.StatusCreated)
				}
			}))
			t.Cleanup(srv.Close)
			t.Cleanup(func() { close(done) })
			host := strings.TrimPrefix(srv.URL, "http://")
			c := New(keychain.New(newKeyring(t, providerUser{host, "pusher", canary.PasswordSecret, nil}), tt.opts))
			err := newRepository(t, c, host+"/copies/app").Blobs().Push(t.Context(), content.NewDescriptorFromBytes("", blob), &slowReader{bytes.NewReader(blob)})
			if tt.hangs != (err != nil) || tt.hangs && !strings.Contains(err.Error(), "for 100ms: idle for too long") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// slowReader needs some time for each KiB.
type slowReader struct{ io.Reader }

func (s *slowReader) Read(p []byte) (int, error) {
	time.Sleep(80 * time.Millisecond)
	return s.Reader.Read(p[:min(len(p), 1<<10)])
}
