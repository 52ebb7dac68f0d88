// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/plugin"
)

// TestProxyOfTheEnvironment: a proxy that is there for everything is not asked
// for metadata and container credentials. Go reads the variables once a
// process, so it takes one that has had them from the beginning.
func TestProxyOfTheEnvironment(t *testing.T) {
	const proxy = "http://127.0.0.1:9"
	if os.Getenv("HTTP_PROXY") != proxy {
		cmd := exec.Command(os.Args[0], "-test.run=^TestProxyOfTheEnvironment$", "-test.v")
		for _, entry := range os.Environ() {
			if name, _, _ := strings.Cut(strings.ToUpper(entry), "="); !strings.HasSuffix(name, "_PROXY") && name != "REQUEST_METHOD" {
				cmd.Env = append(cmd.Env, entry)
			}
		}
		cmd.Env = append(cmd.Env, "HTTP_PROXY="+proxy, "HTTPS_PROXY="+proxy)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestProxyOfTheEnvironment") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	p, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	chosen := newClient(p.opts).GetTransport().Proxy
	for address, want := range map[string]bool{
		"http://169.254.169.254/latest/api/token": false, "http://169.254.170.2/v2/credentials": false,
		"http://169.254.170.23/v1/credentials": false, "http://[fd00:ec2::254]/latest/api/token": false,
		"http://[fd00:ec2::23]/v1/credentials": false,
		"https://sts.eu-west-1.amazonaws.com/": true, "https://api.ecr.eu-west-1.amazonaws.com/": true, "http://10.0.0.1/": true,
	} {
		req, err := http.NewRequest(http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := chosen(req); err != nil || (got != nil) != want {
			t.Errorf("%s: got proxy %v, %v", address, got, err)
		}
	}
}

// TestDefaultBudget: what nobody has set leaves time to say what went wrong.
func TestDefaultBudget(t *testing.T) {
	p, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if p.opts.Budget != remote.Budget || p.opts.Budget >= plugin.DefaultServeTimeout {
		t.Errorf("got %v, want %v, less than %v", p.opts.Budget, remote.Budget, plugin.DefaultServeTimeout)
	}
	// An attempt that hangs must not use up the time of the others.
	if 3*p.opts.Timeout > p.opts.Budget {
		t.Errorf("three attempts of %v do not fit in %v", p.opts.Timeout, p.opts.Budget)
	}
}
