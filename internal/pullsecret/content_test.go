// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

var at = time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)

func testCredential(password, pattern string) Credential {
	return Credential{
		Issued: at, Expires: at.Add(time.Hour), Refresh: at.Add(36 * time.Minute), Pattern: pattern,
		auth: plugin.AuthConfig{Username: "u", Password: plugin.NewSecret(password)},
	}
}

func reg(host string) Target   { return Target{Registry: host} }
func image(name string) Target { return Target{Image: name} }

// input returns the input for one provider "p".
func input(credentials map[Target]Credential, targets ...Target) ContentInput {
	return ContentInput{
		Plan:        SecretPlan{Name: "regcred-pull", Providers: []ProviderTargets{{"p", targets}}, Hash: "h"},
		Outcomes:    map[string]Outcome{"p": {Credentials: credentials}},
		GracePeriod: 24 * time.Hour, Now: at,
		Previous: func() ([]byte, error) { return nil, errors.New("not needed") },
	}
}

// passwords returns the passwords in a docker config, by key.
func passwords(t *testing.T, data []byte) map[string]string {
	t.Helper()
	var x struct {
		Auths map[string]struct{ Username, Password, Auth string }
	}
	must.Do(t, json.Unmarshal(data, &x))
	m := map[string]string{}
	for k, a := range x.Auths {
		m[k] = a.Password
		if a.Username != "u" || len(a.Auth)%4 != 0 || a.Auth == "" {
			t.Errorf("%s: user %q, auth %q", k, a.Username, a.Auth)
		}
	}
	return m
}

func TestContent(t *testing.T) {
	for _, tt := range []struct {
		name    string
		targets []Target
		creds   map[Target]Credential
		want    map[string]string
	}{
		{"Docker Hub", []Target{reg("docker.io")}, map[Target]Credential{reg("docker.io"): testCredential("x", "docker.io")}, map[string]string{"https://index.docker.io/v1/": "x"}},
		{"same credential for two images", []Target{image("r.example:1/a"), image("r.example:1/b")}, map[Target]Credential{
			image("r.example:1/a"): testCredential("x", "r.example:1"), image("r.example:1/b"): testCredential("x", "r.example:1"),
		}, map[string]string{"r.example:1": "x"}},
		{"another credential for a path", []Target{image("r.example/a"), image("r.example/b")}, map[Target]Credential{
			image("r.example/a"): testCredential("x", "r.example/a"), image("r.example/b"): testCredential("y", "r.example/b"),
		}, map[string]string{"r.example": "x", "r.example/b": "y"}},
		{"pattern in addition", []Target{reg("r.example")}, map[Target]Credential{reg("r.example"): testCredential("x", "*.example")}, map[string]string{"r.example": "x", "*.example": "x"}},
		{"pattern with a wildcard port", []Target{reg("r.example:1")}, map[Target]Credential{reg("r.example:1"): testCredential("x", "*.example:*")}, map[string]string{"r.example:1": "x"}},
		{"none", []Target{reg("r.example")}, nil, map[string]string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := must.Get(NewContent(input(tt.creds, tt.targets...)))(t)
			if diff := cmp.Diff(tt.want, passwords(t, c.Data)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if c.Status.Missing != len(tt.targets)-len(tt.creds) || c.Status.Refresh.IsZero() != (c.Status.Missing > 0) {
				t.Errorf("missing %d, refresh %v", c.Status.Missing, c.Status.Refresh)
			}
			canary.AssertAbsent(t, "the annotations", fmt.Sprint(c.Status.Annotations()))
			if got := ParseStatus(c.Status.Annotations()); !got.Equal(c.Status) {
				t.Errorf("parsed again: %v, want %v", got, c.Status)
			}
		})
	}
}

// TestFirstProviderWins verifies that a second provider is used only while the first one has no
// credential.
func TestFirstProviderWins(t *testing.T) {
	in := input(map[Target]Credential{reg("r.example"): testCredential("first", "r.example")}, reg("r.example"))
	in.Plan.Providers = append(in.Plan.Providers, ProviderTargets{"q", []Target{reg("r.example")}})
	in.Outcomes["q"] = Outcome{Credentials: map[Target]Credential{reg("r.example"): testCredential("second", "r.example")}}
	if got := passwords(t, must.Get(NewContent(in))(t).Data)["r.example"]; got != "first" {
		t.Error(got)
	}
	in.Outcomes["p"] = Outcome{}
	if c := must.Get(NewContent(in))(t); passwords(t, c.Data)["r.example"] != "second" || c.Status.Missing != 0 {
		t.Errorf("%s, %d missing", c.Data, c.Status.Missing)
	}
}

// TestKeptEntries verifies that a credential stays while its provider fails after a restart, and for
// the grace period after it was removed from the configuration.
func TestKeptEntries(t *testing.T) {
	both := map[Target]Credential{reg("a.example"): testCredential("a", "a.example"), reg("b.example"): testCredential("b", "b.example")}
	first := must.Get(NewContent(input(both, reg("a.example"), reg("b.example"))))(t)
	previous := func() ([]byte, error) { return first.Data, nil }

	failed := input(map[Target]Credential{reg("a.example"): testCredential("a2", "a.example")}, reg("a.example"), reg("b.example"))
	failed.Old, failed.Previous = first.Status, previous
	c := must.Get(NewContent(failed))(t)
	if diff := cmp.Diff(map[string]string{"a.example": "a2", "b.example": "b"}, passwords(t, c.Data)); diff != "" || c.Status.Missing != 1 || len(c.Removed) > 0 {
		t.Errorf("after a failure: %d missing, removed %v\n%s", c.Status.Missing, c.Removed, diff)
	}

	removed := input(map[Target]Credential{reg("a.example"): testCredential("a", "a.example")}, reg("a.example"))
	removed.Old, removed.Previous = first.Status, previous
	c = must.Get(NewContent(removed))(t)
	if len(c.Removed) != 1 || c.Removed[0].Key != "b.example" || passwords(t, c.Data)["b.example"] != "b" {
		t.Fatalf("removed %v: %s", c.Removed, c.Data)
	}
	removed.Old, removed.Now = c.Status, at.Add(24*time.Hour-time.Second)
	if again := must.Get(NewContent(removed))(t); len(again.Removed) != 1 || !again.Removed[0].Removed.Equal(at) {
		t.Errorf("before the end of the grace period: %v", again.Removed)
	}
	removed.Now = at.Add(24 * time.Hour)
	if end := must.Get(NewContent(removed))(t); len(end.Removed) != 0 || len(passwords(t, end.Data)) != 1 {
		t.Errorf("after the grace period: %s", end.Data)
	}

	failed.Previous = func() ([]byte, error) { return nil, errors.New("API server down") }
	if _, err := NewContent(failed); err == nil || !strings.Contains(err.Error(), "API server down") {
		t.Errorf("a credential would be lost: %v", err)
	}
	failed.Previous = func() ([]byte, error) { return []byte(`{"auths":{"b.example":{"auth":"!"}}}`), nil }
	if c := must.Get(NewContent(failed))(t); len(passwords(t, c.Data)) != 1 {
		t.Errorf("a malformed entry was kept: %s", c.Data)
	}
}

func TestTooLarge(t *testing.T) {
	creds, targets := map[Target]Credential{}, []Target{}
	for i := range 450 {
		target := reg(fmt.Sprintf("r%d.example", i))
		targets = append(targets, target)
		creds[target] = testCredential(strings.Repeat("x", 1000), target.Registry)
	}
	_, err := NewContent(input(creds, targets...))
	if large, ok := errors.AsType[*TooLargeError](err); !ok || large.Registries != 450 {
		t.Errorf("%v", err)
	}
	if _, err := NewContent(input(creds, targets[:420]...)); err != nil {
		t.Error(err)
	}
}

func TestIsFresh(t *testing.T) {
	s := must.Get(NewContent(input(map[Target]Credential{reg("a.example"): testCredential("a", "a.example")}, reg("a.example"))))(t).Status
	never := func(string) time.Time { return time.Time{} }
	for _, tt := range []struct {
		name     string
		now      time.Time
		hash     string
		replaced time.Time
		want     bool
	}{
		{"fresh", at, "h", time.Time{}, true},
		{"due", at.Add(36 * time.Minute), "h", time.Time{}, false},
		{"another configuration", at, "i", time.Time{}, false},
		{"clock set back a day", at.Add(-24 * time.Hour), "h", time.Time{}, false},
		{"provider changed later", at, "h", at.Add(time.Minute), false},
		{"provider changed before", at, "h", at.Add(-time.Minute), true},
	} {
		if got := s.IsFresh(tt.now, tt.hash, func(string) time.Time { return tt.replaced }); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	if (Status{}).IsFresh(at, "", never) || ParseStatus(map[string]string{AnnotationEntries: "{", AnnotationRefresh: formatTime(at.Add(time.Hour))}).IsFresh(at, "", never) {
		t.Error("a Secret without valid annotations is fresh")
	}
}
