// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/node"
)

// TestThousandNamespaces verifies that a thousand namespaces cost one exchange and, per refresh, one write
// each. It takes 20 seconds, because creating the namespaces alone takes ten.
func TestThousandNamespaces(t *testing.T) {
	const namespaces = 1000
	s := newScene(t)
	for i := range namespaces {
		s.addNamespace(t, fmt.Sprint("team-", i))
	}
	start := time.Now()
	c := s.run(t, "controller", append(s.args(t), "--kube-api-qps", "500")...)
	waitAll := func(password string) {
		t.Helper()
		node.Eventually(t, 3*time.Minute, func(ctx context.Context) error {
			list, err := s.Client.CoreV1().Secrets("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + secretName})
			if err != nil {
				return err
			}
			filled := 0
			for i := range list.Items {
				if passwords(&list.Items[i])["r.example"] == password {
					filled++
				}
			}
			if filled != namespaces {
				return fmt.Errorf("%d of %d Secrets are filled", filled, namespaces)
			}
			return nil
		})
	}
	waitAll(canary.PasswordSecret + "shared")
	first := time.Since(start)
	writes := len(s.proxy.find("PATCH", "/secrets/"+secretName))
	if got := len(s.requests(t, "shared")); got != 1 || writes != 2*namespaces {
		t.Errorf("first fill: %d exchanges, %d writes, want 1 and %d", got, writes, 2*namespaces)
	}
	start = time.Now()
	s.respond(t, "shared", canary.PasswordSecret+"second", time.Hour)
	s.write(t, "providers.yaml", strings.Replace(providers(""), "defaultCacheDuration: 1h", "defaultCacheDuration: 1h\n  args: [--second]", 1))
	waitAll(canary.PasswordSecret + "second")
	if got := len(s.proxy.find("PATCH", "/secrets/"+secretName)) - writes; len(s.requests(t, "shared")) != 2 || got != namespaces {
		t.Errorf("refresh: %d exchanges in total, %d writes, want 2 and %d", len(s.requests(t, "shared")), got, namespaces)
	}
	status := string(must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid)))(t))
	_, peak, _ := strings.Cut(status, "VmHWM:")
	peak, _, _ = strings.Cut(peak, "\n")
	t.Logf("%d namespaces: first fill %v, refresh %v, peak RSS %s", namespaces, first.Round(time.Millisecond), time.Since(start).Round(time.Millisecond), strings.TrimSpace(peak))
}
