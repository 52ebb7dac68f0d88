// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/regcred/regcred/internal/canary"
)

func TestCheckClock(t *testing.T) {
	tests := []struct {
		name  string
		clock serverClock
		want  doctorCheck
	}{
		{
			"unknown", serverClock{},
			doctorCheck{"clock", doctorSkip, "the API server's answers do not tell its time", ""},
		},
		{
			"near", serverClock{seen: true, skew: -30 * time.Second},
			doctorCheck{"clock", doctorOK, "within 30s of the API server's", ""},
		},
		{
			"ahead", serverClock{seen: true, skew: 31 * time.Second},
			doctorCheck{"clock", doctorWarn, "the API server's clock is 31s ahead of this machine's; tokens may be refused", "synchronise the clocks (NTP)"},
		},
		{
			"behind", serverClock{seen: true, skew: -5 * time.Minute},
			doctorCheck{"clock", doctorWarn, "the API server's clock is 5m behind this machine's; tokens may be refused", "synchronise the clocks (NTP)"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &clusterCheck{doctorReport: &doctorReport{}, clock: &tt.clock}
			c.checkClock()
			if diff := cmp.Diff([]doctorCheck{tt.want}, c.Checks); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// answerer is a transport that answers everything with its header.
type answerer http.Header

func (a answerer) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{Header: http.Header(a), Body: http.NoBody}, nil
}

// TestServerClock takes the middle of the exchange for the moment of the answer.
func TestServerClock(t *testing.T) {
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
			clock := &serverClock{now: func() time.Time { now := times[0]; times = times[1:]; return now }}
			if _, err := clock.watch(answerer{"Date": {tt.date}}).RoundTrip(nil); err != nil {
				t.Fatal(err)
			}
			if clock.seen != tt.seen || clock.skew != tt.skew {
				t.Errorf("got %v, %v; want %v, %v", clock.seen, clock.skew, tt.seen, tt.skew)
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
		{"the kubelets", nodesGroup, "c.yaml", false, "regcred rbac c.yaml | kubectl apply -f -"},
		{"a kubelet", "system:node:a", "c.yaml", false, "regcred rbac c.yaml | kubectl apply -f -"},
		{"a service account", "system:serviceaccount:ns:name", "c.yaml", true, "regcred rbac --service-account ns/name --pull-secrets c.yaml | kubectl apply -f -"},
		{"words for a shell", "o'hara; rm", "my file", false, `regcred rbac --user 'o'\''hara; rm' 'my file' | kubectl apply -f -`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := rbacCommand(tt.user, tt.config, tt.secrets); got != tt.want {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestObjectName(t *testing.T) {
	for _, tt := range []struct {
		in string
		ok bool
	}{{"team/app", true}, {"", false}, {"app", false}, {"/app", false}, {"team/", false}, {"a/b/c", false}} {
		var n objectName
		err := n.Set(tt.in)
		if (err == nil) != tt.ok || tt.ok && n.String() != tt.in || !tt.ok && n.given() {
			t.Errorf("%q: got %q, %v", tt.in, n.String(), err)
		}
	}
}

// TestPodFlags has each flag whose credentials are not the node's.
func TestPodFlags(t *testing.T) {
	l := &lookupFlags{
		pullSecrets: []string{"a", "b"}, tokenFile: "t", noNodeConfig: true,
		pod: objectName{"a", "b"}, serviceAccount: objectName{"a", "b"}, kubeFlags: kubeFlags{kubeconfig: "k"},
	}
	want := "--pod --service-account --pull-secret --service-account-token-file"
	if got := strings.Join(l.podFlags(), " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := (&lookupFlags{noNodeConfig: true}).podFlags(); got != nil {
		t.Errorf("without flags of a pod: got %q", got)
	}
}

func TestWithoutUser(t *testing.T) {
	for in, want := range map[string]string{
		"https://10.0.0.1:6443": "https://10.0.0.1:6443",
		"10.0.0.1":              "10.0.0.1",
		"https://u:" + canary.Password + "@api.example/x": "https://api.example/x",
		"https://u:" + canary.Password + "%zz@api":        "of an address that is no URL",
	} {
		if got := withoutUser(in); got != want {
			t.Errorf("got %d bytes, want %q", len(got), want)
		}
	}
}
