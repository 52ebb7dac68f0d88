// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/probe"
	"github.com/regcred/regcred/internal/route"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/plugin"
)

// newSilentServer starts a server that accepts connections and never responds. It calls
// accepted for each connection, and returns its address.
func newSilentServer(t *testing.T, accepted func()) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			accepted()
		}
	}()
	return l.Addr().String()
}

// hangingImage returns an image with two hosts that never respond.
func hangingImage(t *testing.T, timeout time.Duration, accepted func()) *Image {
	t.Helper()
	one, two := newSilentServer(t, accepted), newSilentServer(t, accepted)
	return &Image{
		findings: &checkResults{check: "image"}, fixForAttempt: func(regcred.Attempt) string { return "" }, Reference: one + "/team/app:v1", Timeout: timeout,
		Lookup: func(context.Context) (*regcred.Result, bool, error) { return &regcred.Result{}, false, nil },
		route: func(image route.Image) (*route.Route, error) {
			return &route.Route{Runtime: "containerd", Hops: []route.Hop{route.NewHop("https", one, "v2", "team/app"), route.NewHop("https", two, "v2", "team/app")}}, nil
		},
		prober: probe.Prober{StepTimeout: time.Minute},
	}
}

// checkFinalFindings checks the last two findings. The last one must have the given message and fix.
// The one before must be an error without a fix, because the cause is unknown.
func checkFinalFindings(t *testing.T, i *Image, message, fix string) {
	t.Helper()
	n := len(i.findings.list)
	step, end := i.findings.list[n-2], i.findings.list[n-1]
	if end.Check != "pull" || !strings.Contains(end.Message, message) || !strings.Contains(end.Message, "; not queried: 127.0.0.1:") || end.Fix != fix {
		t.Errorf("the end: %+v", end)
	}
	if step.Severity != finding.SeverityError || step.Fix != "" {
		t.Errorf("the step: %+v", step)
	}
}

// TestTotalTimeout verifies that the total time of all hosts is limited, and that hosts which were
// not queried are named.
func TestTotalTimeout(t *testing.T) {
	i := hangingImage(t, 100*time.Millisecond, func() {})
	i.tracePull(t.Context())
	checkFinalFindings(t, i, "unknown result: the timeout for all hosts expired (--timeout 100ms) while querying 127.0.0.1:", "increase --timeout")
}

// TestInterrupted verifies that an interrupted check reports an unknown result.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	i := hangingImage(t, time.Minute, cancel)
	i.tracePull(ctx)
	checkFinalFindings(t, i, "unknown result: interrupted while querying 127.0.0.1:", "")
}

// TestSecondCredentialOfMirror verifies the warning about a mirror that accepts only the
// second credential. The kubelet tries a credential with every host before the next
// credential, so it never pulls from this mirror.
func TestSecondCredentialOfMirror(t *testing.T) {
	hosts := map[string]string{}
	for _, user := range []string{"first", "second"} {
		r, err := testregistry.New(testregistry.Options{Auth: testregistry.AuthBasic, Users: map[string]string{user: canary.PasswordSecret}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		must.Get(r.Push("team/app", "v1", testregistry.Image{}))(t)
		hosts[user] = r.Addr()
	}
	i := hangingImage(t, time.Minute, func() {})
	i.Reference = hosts["first"] + "/team/app:v1"
	i.Lookup = func(context.Context) (*regcred.Result, bool, error) {
		r := &regcred.Result{}
		for _, user := range []string{"first", "second"} {
			r.Credentials = append(r.Credentials, regcred.Credential{Username: user, Password: plugin.NewSecret(canary.PasswordSecret)})
		}
		return r, false, nil
	}
	i.route = func(route.Image) (*route.Route, error) {
		origin := route.NewHop("http", hosts["first"], "v2", "team/app")
		origin.IsOrigin = true
		return &route.Route{Runtime: "containerd", Hops: []route.Hop{route.NewHop("http", hosts["second"], "v2", "team/app"), origin}}, nil
	}
	i.tracePull(t.Context())
	got := i.result
	if !got.CanPull || got.From != hosts["first"] || got.Credential == nil || got.Credential.Username != "first" {
		t.Errorf("got %+v of %+v", got, i.findings.list)
	}
	if end := i.findings.list[len(i.findings.list)-1]; end.Check != "pull" || end.Severity != finding.SeverityWarning || !strings.HasPrefix(end.Message, hosts["second"]+" also has the image but is skipped") {
		t.Errorf("the end: %+v", end)
	}
	canary.AssertAbsent(t, "checks", fmt.Sprintf("%+v", i.findings.list))
}

// TestRouteFindings verifies that a setting that the runtime rejects is an error. It also
// verifies that a finding about the node is not repeated for the image.
func TestRouteFindings(t *testing.T) {
	i := hangingImage(t, time.Minute, func() {})
	i.route = func(route.Image) (*route.Route, error) {
		return &route.Route{Runtime: "containerd", Findings: []finding.Finding{
			{Rule: "mirror-broken", Severity: finding.SeverityError, File: "hosts.toml", Line: 1, Message: "it is refused"},
			{Rule: "mirror-odd", Severity: finding.SeverityWarning, File: "hosts.toml", Line: 2, Message: "it is odd"},
			{Rule: "mirror-so", Severity: finding.SeverityInfo, File: "hosts.toml", Line: 3, Message: "it is so"},
		}}, nil
	}
	odd := finding.Finding{Rule: "mirror-odd", Severity: finding.SeverityWarning, File: "hosts.toml", Line: 2, Message: "it is odd"}
	i.findings.earlierFindings = []Finding{{Check: "mirrors", Finding: odd}}
	i.tracePull(t.Context())
	got := map[finding.Severity]int{}
	for _, c := range i.findings.list {
		if c.Check == "mirrors" && c.File == "hosts.toml" {
			got[c.Severity]++
		}
	}
	if got[finding.SeverityError] != 1 || got[finding.SeverityWarning] != 0 || got[finding.SeverityInfo] != 0 {
		t.Errorf("got %v of %+v", got, i.findings.list)
	}
}

// TestLookupInterrupted verifies that a lookup stops when its context is canceled.
func TestLookupInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	i := hangingImage(t, time.Minute, func() {})
	i.Lookup = func(ctx context.Context) (*regcred.Result, bool, error) {
		cancel()
		return nil, false, ctx.Err()
	}
	i.tracePull(ctx)
	if end := i.findings.list[len(i.findings.list)-1]; end.Check != "credentials" || end.Message != "unknown: interrupted" {
		t.Errorf("the end: %+v", end)
	}
}
