// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugins

import (
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
)

// TestStore verifies that Go reads from the store what it reads from Debian's store: all CAs from
// the bundle, and all CAs again from the directory's files.
func TestStore(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	s := must.Get(newCertStore(t.TempDir(), ca))(t)
	bundle := must.Get(os.ReadFile(s.bundlePath()))(t)
	count, found := 0, false
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatalf("certificate %d: %v", count, err)
		}
		found = found || cert.Equal(server.Certificate())
		count++
	}
	// The size of Debian's bundle is 220 kB.
	if count != storeCACount || !found || len(bundle) < 180e3 || len(bundle) > 260e3 {
		t.Errorf("a bundle of %d certificates and %d bytes, with the cloud's: %t", count, len(bundle), found)
	}
	names, err := filepath.Glob(filepath.Dir(s.bundlePath()) + "/*.pem")
	if err != nil || len(names) != storeCACount {
		t.Errorf("%d certificates in the directory, %v", len(names), err)
	}
	hashes, err := filepath.Glob(filepath.Dir(s.bundlePath()) + "/????????.0")
	if err != nil || len(hashes) != storeCACount {
		t.Errorf("%d hashes in the directory, %v", len(hashes), err)
	}
	for _, name := range append(names, hashes...) {
		data, err := os.ReadFile(name)
		if block, _ := pem.Decode(data); err != nil || block == nil {
			t.Errorf("%s: no certificate, %v", name, err)
		}
	}
}

// TestLatencyIsConcurrent verifies that handshakes and requests are delayed, and that the delays of
// two connections are concurrent.
func TestLatencyIsConcurrent(t *testing.T) {
	const trip = 200 * time.Millisecond
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	front := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer front.Close()
	go latencyProxy{front, server.Listener.Addr().String(), trip}.acceptLoop()

	get := func(client *http.Client) {
		resp, err := client.Get("https://" + front.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		resp.Body.Close()
	}
	expect := func(what string, trips time.Duration, f func()) {
		start := time.Now()
		f()
		// On a busy machine it may take longer, but less than another round trip.
		if got := time.Since(start); got < trips*trip || got >= (trips+1)*trip {
			t.Errorf("%s took %v, want %d times %v", what, got, trips, trip)
		}
	}
	client := server.Client()
	expect("the first request", 2, func() { get(client) })
	expect("the second request", 1, func() { get(client) })
	client.CloseIdleConnections()
	expect("two at once", 2, func() {
		done := make(chan struct{})
		go func() { get(client); close(done) }()
		get(client)
		<-done
	})
}
