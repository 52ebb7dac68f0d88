// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCheckToken verifies that the audience in the token's claims is checked, too.
func TestCheckToken(t *testing.T) {
	const want = "reg.example"
	for _, tt := range []struct {
		name, payload string
		ok            bool
	}{
		{"for it", `{"aud":["reg.example"]}`, true},
		{"for it, not in a list", `{"aud":"reg.example"}`, true},
		{"for another", `{"aud":["other.example"]}`, false},
		{"for another too", `{"aud":["reg.example","other.example"]}`, false},
		{"for nobody", `{}`, false},
		{"none that can be read", `x`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var answer authenticationv1.TokenRequest
			answer.Spec.Audiences = []string{want}
			answer.Status.Token = "e30." + base64.RawURLEncoding.EncodeToString([]byte(tt.payload)) + ".x"
			if err := checkToken(&answer, want); (err == nil) != tt.ok {
				t.Errorf("got the error %v", err)
			}
		})
	}
}

// TestEvictionOrder verifies that a full cache evicts the entry that expires first, and that
// expired entries are removed.
func TestEvictionOrder(t *testing.T) {
	now := time.Now()
	k := newTTLCache[string, int](3)
	in := func(d time.Duration) time.Time { return now.Add(d) }
	k.put("long", 1, in(3*time.Hour), now)
	k.put("short", 2, in(time.Hour), now)
	k.put("ended", 3, in(time.Second), now)
	if _, ok := k.getUnexpired("ended", in(time.Second)); ok {
		t.Error("an expired entry is returned")
	}
	k.put("more", 4, in(2*time.Hour), in(2*time.Second)) // evicts "ended"
	k.put("short", 5, in(time.Hour), in(2*time.Second))  // replaces "short"
	for _, key := range []string{"long", "short", "more"} {
		if _, ok := k.getUnexpired(key, now); !ok {
			t.Errorf("%q is gone", key)
		}
	}
	k.put("last", 6, in(4*time.Hour), in(2*time.Second))
	if _, ok := k.getUnexpired("short", now); ok || len(k.entries) != 3 {
		t.Errorf("what ends first is there, or there are %d entries", len(k.entries))
	}
	k.put("x", 7, in(48*time.Hour), in(24*time.Hour))
	if len(k.entries) != 1 {
		t.Errorf("expired entries are kept: %d entries", len(k.entries))
	}
}

// TestTokenTimesAreMonotonic verifies that the expiry and refresh times of a token use the
// monotonic clock, although the API server sends wall clock times.
func TestTokenTimesAreMonotonic(t *testing.T) {
	asked := time.Now()
	var answer authenticationv1.TokenRequest
	answer.Status.ExpirationTimestamp = metav1.NewTime(asked.Add(time.Hour).Round(0))
	tok := newToken(&answer, asked)
	for name, at := range map[string]time.Time{"expires": tok.expires, "refresh": tok.refresh} {
		if !strings.Contains(at.String(), " m=") {
			t.Errorf("%s is %v: setting the clock moves it", name, at)
		}
	}
	if !tok.expires.Equal(asked.Add(time.Hour)) {
		t.Errorf("it expires %v, want in an hour", tok.expires)
	}
}
