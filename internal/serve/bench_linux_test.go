// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package serve

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/serve/client"
)

// BenchmarkServe compares cached responses with a trivial handler on the same kind of socket, in the same
// run: decode a small JSON body, return 600 bytes. 16 clients keep their connections.
func BenchmarkServe(b *testing.B) {
	s := startService(b, "a=r.example")
	s.credentials("r.example/app")
	trivial := filepath.Join(b.TempDir(), "s")
	l := must.Get(net.Listen("unix", trivial))(b)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]string
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = io.WriteString(w, strings.Repeat("x", 600))
	})}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	kubelet := fmt.Sprintf(requestV1, "r.example/app")
	for _, bb := range []struct{ name, socket, path, body string }{
		{"trivial", trivial, "/", kubelet},
		{"lookup", s.socket, client.PathLookup, `{"image":"r.example/app"}`},
		{"credentials", s.socket, client.PathCredentials, kubelet},
	} {
		b.Run(bb.name, func(b *testing.B) {
			const clients = 16
			request := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", bb.path, len(bb.body), bb.body)
			took := make([][]time.Duration, clients)
			var wg sync.WaitGroup
			b.ResetTimer()
			for i := range clients {
				wg.Go(func() {
					c, err := net.Dial("unix", bb.socket)
					if err != nil {
						b.Error(err)
						return
					}
					defer c.Close()
					r := bufio.NewReader(c)
					for range b.N/clients + 1 {
						start := time.Now()
						_, _ = io.WriteString(c, request)
						resp, err := http.ReadResponse(r, nil)
						for err == nil && resp.StatusCode == http.StatusProcessing {
							resp, err = http.ReadResponse(r, nil)
						}
						if err != nil || resp.StatusCode != 200 {
							b.Errorf("%v, %v", resp, err)
							return
						}
						_, _ = io.Copy(io.Discard, resp.Body)
						took[i] = append(took[i], time.Since(start))
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			all := slices.Sorted(slices.Values(slices.Concat(took...)))
			b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "requests/s")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(all[len(all)*999/1000].Microseconds()), "p99.9-µs")
		})
	}
}
