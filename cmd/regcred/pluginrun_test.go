// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/plugin"
)

func TestToResponseJSON(t *testing.T) {
	login := plugin.AuthConfig{Username: "u", Password: plugin.NewSecret(canary.PasswordSecret)}
	masked := authReport{Username: "u", Password: "[redacted]"}
	got := newResponseReport(&plugin.Response{
		APIVersion:    plugin.V1,
		CacheKeyType:  plugin.CacheRegistry,
		CacheDuration: new(-time.Second),
		Auth: map[string]plugin.AuthConfig{
			"a.example": login,
			"https://me:" + canary.PasswordSecret + "@b.example/x": login,
			"c.example": {},
		},
	})
	want := &responseReport{
		Kind:          "CredentialProviderResponse",
		APIVersion:    plugin.V1,
		CacheKeyType:  plugin.CacheRegistry,
		CacheDuration: "-1s",
		Auth: map[string]authReport{
			"a.example":              masked,
			"[redacted]@b.example/x": masked,
			"c.example":              {},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(responseReport{})); diff != "" {
		canary.AssertAbsent(t, "the difference", diff)
		t.Error("the response is not as wanted")
	}
}

func TestCacheDurationText(t *testing.T) {
	tests := []struct {
		name string
		in   *time.Duration
		want string
	}{
		{"default", nil, ", cached for the provider's defaultCacheDuration"},
		{"zero", new(time.Duration(0)), ", not cached"},
		{"negative", new(-time.Second), ", not cached"},
		{"some", new(10 * time.Minute), ", cached for 10m"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := cacheDurationText(tt.in); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
