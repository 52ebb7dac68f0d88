// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerhelper_test

import (
	"testing"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/dockerhelper"
)

func TestHasProvider(t *testing.T) {
	required := true
	cfg := &config.Config{Providers: []config.Provider{
		{Name: "p", MatchImages: []string{"one.example", "*.wild.example:5000", "part.example/team", "docker.io", "r..example"}},
		{Name: "pods", MatchImages: []string{"pods.example"}, TokenAttributes: &config.TokenAttributes{RequireServiceAccount: &required}},
	}}
	for registry, want := range map[string]bool{
		"one.example": true, "one.example:443": true, "one.example:5000": false, "a.wild.example:5000": true, "a.wild.example": false,
		"part.example": false, "docker.io": true, "pods.example": false, "r..example": false, "": false,
	} {
		if got := dockerhelper.HasProvider(cfg, registry); got != want {
			t.Errorf("%q: got %v", registry, got)
		}
	}
}
