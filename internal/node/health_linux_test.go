// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"path/filepath"
	"testing"
)

// TestHealthDropIn verifies that configuration drop-ins can change the kubelet's health
// endpoint.
func TestHealthDropIn(t *testing.T) {
	const byDefault = "http://127.0.0.1:10248/healthz"
	for name, tt := range map[string]struct{ config, dropIn, url, from string }{
		"neither":           {url: byDefault, from: "the kubelet's default"},
		"of the file":       {config: "healthzPort: 1", url: "http://127.0.0.1:1/healthz", from: "/c.yaml"},
		"of the drop-in":    {config: "healthzPort: 1", dropIn: "healthzPort: 2", url: "http://127.0.0.1:2/healthz", from: "/d/1.conf"},
		"off":               {config: "healthzPort: 1", dropIn: "healthzPort: 0", from: "/d/1.conf"},
		"taken back":        {config: "{healthzPort: 1, healthzBindAddress: 127.0.0.2}", dropIn: "{healthzPort: null, healthzBindAddress: null}", url: byDefault, from: "the kubelet's default"},
		"of no address":     {config: "healthzBindAddress: 127.0.0.2", dropIn: `healthzBindAddress: ""`, url: byDefault, from: "the kubelet's default"},
		"of another case":   {dropIn: "{HealthzPort: 2, HealthzBindAddress: 127.0.0.2}", url: byDefault, from: "the kubelet's default"},
		"of its case, null": {dropIn: "{healthzPort: null, HealthzPort: 2}", url: "http://127.0.0.1:2/healthz", from: "/d/1.conf"},
		"no configuration":  {config: "[", dropIn: "]", url: byDefault, from: "the kubelet's default"},
	} {
		dir := t.TempDir()
		putFile(t, filepath.Join(dir, "c.yaml"), tt.config+"\n")
		putFile(t, filepath.Join(dir, "d/1.conf"), tt.dropIn+"\n")
		putFile(t, filepath.Join(dir, "etc/systemd/system/kubelet.service"), "[Service]\nExecStart=/usr/bin/kubelet --config=/c.yaml --config-dir=/d\n")
		s, err := Node{Root: dir}.NewReader().Setup(t.Context())
		if want := (HealthEndpoint{tt.url, tt.from}); err != nil || s.Health != want {
			t.Errorf("%s: got %+v, %v; want %+v", name, s.Health, err, want)
		}
	}
}
