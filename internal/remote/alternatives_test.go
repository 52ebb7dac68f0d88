// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/internal/testcloud"
)

// TestAlternatives verifies that the first reachable host is used, and that the next request
// tries this host first.
func TestAlternatives(t *testing.T) {
	s := startServer(t)
	var dialed []string
	base := remote.NewBaseTransport()
	base.Proxy = nil
	dialer := net.Dialer{Timeout: 50 * time.Millisecond}
	base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, _, _ := net.SplitHostPort(addr)
		dialed = append(dialed, host)
		switch host {
		case "none":
			return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ENETUNREACH)}
		case "hole": // the dialer's own timeout
			ctx, cancel := context.WithTimeout(ctx, dialer.Timeout)
			defer cancel()
			<-ctx.Done()
			return nil, &net.OpError{Op: "dial", Net: network, Err: os.ErrDeadlineExceeded}
		case "refuses":
			return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		}
		return dialer.DialContext(ctx, network, s.Addr())
	}
	for name, tt := range map[string]struct {
		hosts  []string
		dialed []string
		want   string
	}{
		"no way":     {[]string{"none", "hole", "server"}, []string{"none", "hole", "server"}, ""},
		"refuses":    {[]string{"refuses", "server"}, []string{"refuses", "refuses", "refuses"}, "connection refused, 3 times"},
		"all no way": {[]string{"none", "none"}, []string{"none", "none", "none", "none", "none", "none"}, "none: no route to host; none: no route to host, 3 times"},
	} {
		t.Run(name, func(t *testing.T) {
			dialed = nil
			transport := remote.WrapTransport(base)
			defer transport.CloseIdleConnections()
			client := newFastClient()
			client.Transport = remote.NewFailover(transport, tt.hosts...)
			_, err := client.Do(t.Context(), remote.Call{Step: "ask", URL: "http://" + tt.hosts[0] + "/x"})
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasSuffix(err.Error(), ": "+tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if diff := cmp.Diff(tt.dialed, dialed); diff != "" {
				t.Error(diff)
			}
			if tt.want != "" {
				return
			}
			// The next request uses the same host, and a redirect must not lead to another
			// host.
			dialed = nil
			s.Inject(testcloud.Fault{Status: 307, Header: http.Header{"Location": {"/y"}}})
			if _, err = client.Do(t.Context(), remote.Call{Step: "ask", URL: "http://" + tt.hosts[0] + "/x"}); err != nil {
				t.Error(err)
			}
			s.Inject(testcloud.Fault{Status: 307, Header: http.Header{"Location": {"http://elsewhere/y"}}})
			_, err = client.Do(t.Context(), remote.Call{Step: "ask", URL: "http://" + tt.hosts[0] + "/x"})
			if _, ok := errors.AsType[*remote.RedirectError](err); !ok || len(dialed) > 1 {
				t.Errorf("dialed %q: %v", dialed, err)
			}
		})
	}
}
