// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
)

// trickleReader is a body of several KiB that needs some time for each.
type trickleReader struct {
	kib   int
	every time.Duration
}

func (s *trickleReader) Read(p []byte) (int, error) {
	if s.kib--; s.kib < 0 {
		return 0, io.EOF
	}
	time.Sleep(s.every)
	return copy(p, make([]byte, 1024)), nil
}

// TestSlowUpload verifies that an upload may take longer than the timeouts, that the server may then work on it for
// longer than IdleTimeout, and that ResponseTimeout ends it.
func TestSlowUpload(t *testing.T) {
	for _, tt := range []struct {
		name           string
		response, idle time.Duration
		err            string
	}{
		{"slow upload", 500 * time.Millisecond, 500 * time.Millisecond, ""},
		{"server works on it", time.Minute, 100 * time.Millisecond, ""},
		{"no response", 100 * time.Millisecond, time.Minute, "for 100ms: idle for too long"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			read := make(chan int64, 1)
			done := make(chan struct{})
			f, ref := startProxy(t, testregistry.Options{Auth: testregistry.AuthBasic, Rules: pushRights}, 1, func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != "PATCH" || basicAuthUser(r) != "good" {
					return false
				}
				n, _ := io.Copy(io.Discard, r.Body)
				read <- n
				switch tt.name {
				case "server works on it":
					time.Sleep(300 * time.Millisecond)
				case "no response":
					<-done
				}
				w.WriteHeader(202)
				return true
			})
			t.Cleanup(func() { close(done) })
			opts := Options{ResponseTimeout: tt.response, IdleTimeout: tt.idle}
			tr := mustTransport(t, New(newGoodKeyring(t, f.host()), opts), ref.Context())
			req, _ := http.NewRequestWithContext(t.Context(), "PATCH", f.URL+"/v2/team/app/blobs/uploads/x", &trickleReader{10, 80 * time.Millisecond})
			resp, err := tr.RoundTrip(req)
			if err == nil {
				resp.Body.Close()
			}
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("got %v, want %q", err, tt.err)
			}
			if n := <-read; n != 10<<10 {
				t.Errorf("the server read %d bytes", n)
			}
		})
	}
}

// TestIdleResponse verifies that IdleTimeout ends a response that stops, and not one that is read late.
func TestIdleResponse(t *testing.T) {
	done := make(chan struct{})
	f, ref := startProxy(t, testregistry.Options{Auth: testregistry.AuthBasic}, 1, func(w http.ResponseWriter, r *http.Request) bool {
		if basicAuthUser(r) == "" || !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		io.WriteString(w, "begins")
		must.Do(t, http.NewResponseController(w).Flush())
		<-done
		return true
	})
	t.Cleanup(func() { close(done) })
	tr := mustTransport(t, New(newGoodKeyring(t, f.host()), Options{IdleTimeout: 100 * time.Millisecond}), ref.Context())
	req, _ := http.NewRequestWithContext(t.Context(), "GET", f.URL+"/v2/team/app/blobs/sha256:x", nil)
	resp := must.Get(tr.RoundTrip(req))(t)
	defer resp.Body.Close()
	time.Sleep(200 * time.Millisecond)
	if text, err := io.ReadAll(resp.Body); string(text) != "begins" || err == nil || !strings.Contains(err.Error(), "idle for too long") {
		t.Errorf("got %q, %v", text, err)
	}
}
