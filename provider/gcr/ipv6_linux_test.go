// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// TestIPv6Only verifies that a node with only IPv6 finds the metadata server, at its IPv6 address
// or by name. The test runs in its own network namespace, where these addresses belong to the test
// server.
func TestIPv6Only(t *testing.T) {
	if where := os.Getenv("GCR_TEST_METADATA_AT"); where != "" {
		getCredentialsIPv6Only(t, where)
		return
	}
	if out, err := exec.Command("unshare", "--map-root-user", "--net", "--mount", "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Skipf("a node with IPv6 alone needs unshare, ip, and root or user namespaces: %v: %s", err, out)
	}
	none := "registry \"gcr.io\": get the node's access token: GET http://169.254.169.254/computeMetadata/v1/instance/service-accounts/default/token: " +
		"169.254.169.254: no route to host; [fd20:ce::254]: no route to host; " +
		"metadata.google.internal.: cannot resolve the host name, 3 times; a node outside Google Cloud has no metadata server, so --sts-audience is required"
	stranger := `: the response has no header "Metadata-Flavor: Google", so the response is not from Google's metadata server; ` +
		"to use another metadata server, set GCE_METADATA_HOST"
	for name, tt := range map[string]struct{ at, hosts, flavor, want string }{
		"address":             {"fd20:ce::254", "127.0.0.1 localhost", "Google", "answered as [fd20:ce::254]"},
		"name":                {"fd20:aa::1", "fd20:aa::1 metadata.google.internal", "Google", "answered as metadata.google.internal."},
		"neither":             {"fd20:bb::1", "127.0.0.1 localhost", "Google", none},
		"a stranger's":        {"fd20:aa::1", "fd20:aa::1 metadata.google.internal", "", stranger},
		"another's, likewise": {"fd20:ce::254", "127.0.0.1 localhost", "Other", stranger},
	} {
		t.Run(name, func(t *testing.T) {
			hosts := filepath.Join(t.TempDir(), "hosts")
			must.Do(t, os.WriteFile(hosts, []byte(tt.hosts+"\n"), 0o644))
			cmd := exec.Command("unshare", "--map-root-user", "--net", "--mount", "sh", "-c",
				`set -e; ip link set lo up; ip -6 addr add "$1/128" dev lo nodad; mount --bind "$2" /etc/hosts; shift 2; exec "$@"`,
				"sh", tt.at, hosts, os.Args[0], "-test.run=^TestIPv6Only$", "-test.v")
			cmd.Env = append(os.Environ(), "GCR_TEST_METADATA_AT="+tt.at, "GCR_TEST_METADATA_FLAVOR="+tt.flavor)
			begin := time.Now()
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), tt.want+"\n") {
				t.Errorf("%v\n%s\nwant %s", err, out, tt.want)
			}
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// getCredentialsIPv6Only serves metadata at one address and calls a provider without options.
func getCredentialsIPv6Only(t *testing.T, where string) {
	listener := must.Get(net.Listen("tcp", net.JoinHostPort(where, "80")))(t)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Metadata-Flavor") == "Google" {
			t.Logf("answered as %s", r.Host)
			if os.Getenv("GCR_TEST_METADATA_FLAVOR") != "" {
				w.Header().Set("Metadata-Flavor", os.Getenv("GCR_TEST_METADATA_FLAVOR"))
			}
			w.Write([]byte(`{"access_token":"open-sesame","expires_in":3600}`))
		}
	})}
	go server.Serve(listener)
	defer server.Close()
	p := must.Get(New(Options{Backoff: time.Millisecond}))(t)
	resp, err := p.GetCredentials(t.Context(), &plugin.Request{Image: "gcr.io/p/app"})
	if err != nil {
		t.Log(err)
	} else if len(resp.Auth) == 0 {
		t.Error("the credential is missing")
	}
}
