// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testregistry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

func TestFaultTimes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault Fault
		want  []int
		hits  int
	}{
		{"once", Fault{Kind: FaultServerError}, []int{500, 200, 200, 200}, 1},
		{"after two, twice", Fault{Kind: FaultServerError, After: 2, Times: 2}, []int{200, 200, 500, 500, 200}, 2},
		{"for ever", Fault{Kind: FaultTooManyRequests, Times: Forever}, []int{429, 429, 429, 429}, 4},
		{"401 after one", Fault{Kind: FaultUnauthorized, After: 1, Times: Forever}, []int{200, 401, 401}, 2},
		{"another endpoint", Fault{Kind: FaultServerError, Endpoint: EndpointBlobs}, []int{200, 200}, 0},
		{"the same endpoint", Fault{Kind: FaultServerError, Endpoint: EndpointManifests}, []int{500, 200}, 1},
		{"another path", Fault{Kind: FaultServerError, Path: "/y/"}, []int{200}, 0},
		{"the same path", Fault{Kind: FaultServerError, Path: "/x/"}, []int{500}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startServer(t, Options{Auth: AuthBasic, Users: testUsers})
			pushImage(t, s, "x", Image{})
			in := s.Inject(tt.fault)
			var got []int
			for range tt.want {
				resp, _, err := httpGet(t, "GET", s.URL()+"/v2/x/manifests/v1", basicHeader("ci", canary.PasswordSecret), "")
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, resp.StatusCode)
				if has := resp.Header.Get("WWW-Authenticate") != ""; has != (resp.StatusCode == 401) {
					t.Errorf("status %d, challenge: %t", resp.StatusCode, has)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("statuses (-want +got):\n%s", diff)
			}
			if in.Hits() != tt.hits {
				t.Errorf("%d hits, want %d", in.Hits(), tt.hits)
			}
		})
	}
}

func TestRemoveFault(t *testing.T) {
	s := startServer(t, Options{})
	in := s.Inject(Fault{Kind: FaultServerError, Times: Forever})
	for _, want := range []int{500, 200} {
		resp, _, err := httpGet(t, "GET", s.URL()+"/v2/", nil, "")
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != want {
			t.Errorf("status %d, want %d", resp.StatusCode, want)
		}
		in.Remove()
	}
}

func TestRetryAfter(t *testing.T) {
	s := startServer(t, Options{})
	s.Inject(Fault{Kind: FaultTooManyRequests, RetryAfter: 1500 * time.Millisecond})
	resp, _, err := httpGet(t, "GET", s.URL()+"/v2/", nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Header.Get("Retry-After"); resp.StatusCode != 429 || got != "2" {
		t.Errorf("status %d, Retry-After %q, want 429, \"2\"", resp.StatusCode, got)
	}
}

func TestSpoiledBlobs(t *testing.T) {
	s := startServer(t, Options{})
	pushImage(t, s, "x", Image{LayerSize: 100_000})
	digest := newLayer(t, s, "x")
	blob := s.URL() + "/v2/x/blobs/" + digest.String()
	_, whole, err := httpGet(t, "GET", blob, nil, "")
	if err != nil {
		t.Fatal(err)
	}

	t.Run("cut", func(t *testing.T) {
		s.Inject(Fault{Kind: FaultTruncate, Endpoint: EndpointBlobs, Bytes: 1000})
		_, got, err := httpGet(t, "GET", blob, nil, "")
		if !errors.Is(err, io.ErrUnexpectedEOF) || !bytes.Equal(got, whole[:1000]) {
			t.Errorf("got %d bytes, error %v, want the first 1000 and an unexpected EOF", len(got), err)
		}
	})
	t.Run("corrupt", func(t *testing.T) {
		s.Inject(Fault{Kind: FaultCorrupt, Endpoint: EndpointBlobs})
		_, got, err := httpGet(t, "GET", blob, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		hash, n, _ := v1.SHA256(bytes.NewReader(got))
		if n != int64(len(whole)) || hash == digest {
			t.Errorf("got %d bytes with digest %s, want %d with another digest", n, hash, len(whole))
		}
	})
	t.Run("slow", func(t *testing.T) {
		const delay = 50 * time.Millisecond
		s.Inject(Fault{Kind: FaultSlow, Endpoint: EndpointBlobs, Bytes: 1000, Delay: delay})
		began := time.Now()
		_, got, err := httpGet(t, "GET", blob, nil, "")
		if err != nil || !bytes.Equal(got, whole) {
			t.Errorf("got %d bytes, error %v, want the whole blob", len(got), err)
		}
		if took := time.Since(began); took < delay {
			t.Errorf("took %s, want at least %s", took, delay)
		}
	})
	t.Run("stalled, and the client gives up", func(t *testing.T) {
		s.Inject(Fault{Kind: FaultSlow, Endpoint: EndpointBlobs, Bytes: 1000, Delay: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "GET", blob, nil)
		resp := must.Get(http.DefaultClient.Do(req))(t)
		defer resp.Body.Close()
		got, err := io.ReadAll(io.LimitReader(resp.Body, 1000))
		if err != nil || !bytes.Equal(got, whole[:1000]) {
			t.Errorf("got %d bytes, error %v, want the first 1000", len(got), err)
		}
		cancel()
		if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) {
			t.Errorf("after cancelling: %v", err)
		}
	})
	t.Run("only GET is spoiled", func(t *testing.T) {
		in := s.Inject(Fault{Kind: FaultTruncate, Endpoint: EndpointBlobs})
		defer in.Remove()
		if _, _, err := httpGet(t, "HEAD", blob, nil, ""); err != nil {
			t.Error(err)
		}
		if in.Hits() != 0 {
			t.Errorf("%d hits, want 0", in.Hits())
		}
	})
	t.Run("well again", func(t *testing.T) {
		in := s.Inject(Fault{Kind: FaultTruncate, Endpoint: EndpointBlobs})
		if _, _, err := httpGet(t, "GET", blob, nil, ""); err == nil {
			t.Error("a cut at 0 bytes went unnoticed")
		}
		_, got, err := httpGet(t, "GET", blob, nil, "")
		if err != nil || !bytes.Equal(got, whole) || in.Hits() != 1 {
			t.Errorf("got %d bytes, error %v, %d hits, want the whole blob after 1 hit", len(got), err, in.Hits())
		}
	})
}
