// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/kube"
)

func TestCheckClock(t *testing.T) {
	tests := []struct {
		name  string
		clock *ClockSkew
		want  finding.Finding
	}{
		{
			"unknown", &ClockSkew{},
			finding.Finding{Severity: finding.SeveritySkipped, Message: "the API server's responses have no Date header", Fix: ""},
		},
		{
			"near", &ClockSkew{measured: true, skew: -30 * time.Second},
			finding.Finding{Severity: finding.SeverityOK, Message: "within 30s of the API server's clock", Fix: ""},
		},
		{
			"ahead", &ClockSkew{measured: true, skew: 31 * time.Second},
			finding.Finding{Severity: finding.SeverityWarning, Message: "the API server's clock is 31s ahead of this machine's clock, so tokens might be rejected", Fix: "synchronize the clocks (NTP)"},
		},
		{
			"behind", &ClockSkew{measured: true, skew: -5 * time.Minute},
			finding.Finding{Severity: finding.SeverityWarning, Message: "the API server's clock is 5m behind this machine's clock, so tokens might be rejected", Fix: "synchronize the clocks (NTP)"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &checkResults{check: "clock"}
			checkClock(t.Context(), &Input{Cluster: &Cluster{Clock: tt.clock}}, r)
			if diff := cmp.Diff([]Finding{{Check: "clock", Finding: tt.want}}, r.list); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// headerTransport is a transport that responds to every request with the same headers.
type headerTransport http.Header

func (a headerTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{Header: http.Header(a), Body: http.NoBody}, nil
}

// TestClock verifies that the Date header is compared with the time halfway between the
// request and the response.
func TestClock(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := []struct {
		name string
		date string
		seen bool
		skew time.Duration
	}{
		{"ahead", start.Add(61 * time.Second).Format(http.TimeFormat), true, time.Minute},
		{"behind", start.Add(-59 * time.Second).Format(http.TimeFormat), true, -time.Minute},
		{"no date", "", false, 0},
		{"no time", "noon", false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			times := []time.Time{start, start.Add(2 * time.Second)}
			clock := &ClockSkew{Now: func() time.Time { now := times[0]; times = times[1:]; return now }}
			must.Get(clock.WrapTransport(headerTransport{"Date": {tt.date}}).RoundTrip(nil))(t)
			if clock.measured != tt.seen || clock.skew != tt.skew {
				t.Errorf("got %v, %v; want %v, %v", clock.measured, clock.skew, tt.seen, tt.skew)
			}
		})
	}
}

// TestConcurrentSecretsShareClock verifies that concurrent reads of pull secrets do not change the
// clock.
func TestConcurrentSecretsShareClock(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := &ClockSkew{Now: func() time.Time { return start }}
	header := http.Header{"Date": {start.Add(time.Minute).Format(http.TimeFormat)}}
	transport := clock.WrapTransport(headerTransport(header))
	must.Get(transport.RoundTrip(nil))(t)
	header["Date"] = []string{start.Add(time.Hour).Format(http.TimeFormat)}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { _, _ = transport.RoundTrip(nil) }) // it never fails
	}
	wg.Wait()
	if !clock.measured || clock.skew != time.Minute {
		t.Errorf("got %v, %v; want the first response's minute", clock.measured, clock.skew)
	}
}

// TestForbiddenRemedy verifies that the fix for a 403 response depends on the API server's
// message.
func TestForbiddenRemedy(t *testing.T) {
	for _, tt := range []struct{ name, resource, message, want string }{
		{"audience", "serviceaccounts/token",
			`serviceaccounts "app" is forbidden: audience "reg.example" not found in pod spec volume, system:node:a is not authorized to request tokens for this audience`,
			"regcred rbac c.yaml | kubectl apply -f -"},
		{"audience, from 1.37 on", "serviceaccounts/token",
			`serviceaccounts "app" is forbidden: system:node:a is not authorized to request tokens for audience "reg.example"`,
			"regcred rbac c.yaml | kubectl apply -f -"},
		{"something called audience", "serviceaccounts",
			`serviceaccounts "audience" is forbidden: User "jane" cannot get resource "serviceaccounts" in API group "" in the namespace "ci"`,
			"regcred rbac --user jane c.yaml | kubectl apply -f -"},
		{"secrets", "secrets", `secrets "a" is forbidden: User "jane" cannot get resource "secrets"`,
			"regcred rbac --user jane --pull-secrets c.yaml | kubectl apply -f -"},
		{"words for a shell", "pods", `pods "a" is forbidden: User "system:serviceaccount:ci:$(id)" cannot get resource "pods"`,
			"regcred rbac --service-account 'ci/$(id)' c.yaml | kubectl apply -f -"},
		{"another node", "pods", `pods "a" is forbidden: User "system:node:b" cannot get resource "pods" in API group "" in the namespace "ci": no relationship found between node 'b' and this object`,
			"run this command on the pod's node, or use --kubeconfig with the kubeconfig of a user who has permission"},
		{"unbound", "serviceaccounts/token", `serviceaccounts "app" is forbidden: node requested token not bound to a pod`, "use --pod"},
		{"webhook", "pods", `admission webhook "audience.example" denied the request`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := &kube.Error{Code: http.StatusForbidden, Resource: tt.resource, Message: tt.message}
			if got := KubeFix(err, "c.yaml"); got != tt.want {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestRBACCommand(t *testing.T) {
	tests := []struct {
		name, user, config string
		secrets            bool
		want               string
	}{
		{"the kubelets", NodesGroup, "c.yaml", false, "regcred rbac c.yaml | kubectl apply -f -"},
		{"a kubelet", "system:node:a", "c.yaml", false, "regcred rbac c.yaml | kubectl apply -f -"},
		{"a service account", "system:serviceaccount:ns:name", "c.yaml", true, "regcred rbac --service-account ns/name --pull-secrets c.yaml | kubectl apply -f -"},
		{"words for a shell", "o'hara; rm", "my file", false, `regcred rbac --user 'o'\''hara; rm' 'my file' | kubectl apply -f -`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := grantPermissionsCommand(tt.user, tt.config, tt.secrets); got != tt.want {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
		})
	}
}
