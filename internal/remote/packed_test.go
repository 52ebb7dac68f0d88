// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/internal/testcloud"
)

// TestPackedAnswer verifies that the size limit applies to the decompressed response.
func TestPackedAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		size int
		want string // part of the error
	}{
		"short":        {100, ""},
		"at the bound": {remote.MaxBodySize, ""},
		"beyond it":    {remote.MaxBodySize + 1, "the response is longer than 1048576 bytes"},
		"a bomb":       {64 << 20, "the response is longer than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			w := gzip.NewWriter(&b)
			w.Write(make([]byte, tt.size))
			w.Close()
			s := startServer(t)
			s.Inject(testcloud.Fault{Status: 200, Header: http.Header{"Content-Encoding": {"gzip"}}, Body: b.String()})
			answer, err := newFastClient().Do(t.Context(), remote.Call{Step: "ask", URL: s.URL()})
			switch {
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got error %v, want %q", err, tt.want)
			case tt.want == "" && (err != nil || len(answer.Body) != tt.size):
				t.Errorf("got error %v, or another response", err)
			}
		})
	}
}
