// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr_test

import (
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/provider/ecr"
)

// TestMetadataAttempts verifies the number of attempts at a metadata service that
// resets all connections: three for a session token, and three without one. The SDK's
// own client makes many more.
func TestMetadataAttempts(t *testing.T) {
	for name, tt := range map[string]struct {
		opts ecr.Options
		host string
	}{
		"keys":   {ecr.Options{}, privateHost},
		"region": {ecr.Options{AllowHosts: []string{"registry.example"}}, "registry.example"},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := newCloud(t)
			cloud.Inject(testcloud.Fault{Path: "/latest/", Drop: true, Times: -1})
			if _, err := getCredentials(t, tt.opts, imageRequest(tt.host)); err == nil {
				t.Error("there are credentials")
			}
			if got := len(cloud.Requests()); got == 0 || got > 6 {
				t.Errorf("asked %d times: %q", got, cloud.RequestLines())
			}
		})
	}
}

// TestExpiredKeys verifies that an instance's expired keys are used, because the clock
// may be wrong and the API decides.
func TestExpiredKeys(t *testing.T) {
	cloud := newCloud(t)
	for _, life := range []time.Duration{-time.Hour, -365 * 24 * time.Hour, time.Second, 365 * 24 * time.Hour} {
		cloud.Reset()
		cloud.Update(func(s *testcloud.AWSState) { s.KeyLifetime = life })
		resp := mustGetCredentials(t, ecr.Options{}, imageRequest(privateHost))
		checkCredential(t, resp, privateHost)
		if got := len(cloud.Requests()); got > 6 { // the SDK requests newer keys once
			t.Errorf("%v: asked %q", life, cloud.RequestLines())
		}
	}
}

// TestHopLimit verifies that the error names the request that failed and the hop limit if the metadata
// service requires a session token but its response to PUT never arrives, as from a container.
func TestHopLimit(t *testing.T) {
	cloud := newCloud(t)
	cloud.Inject(testcloud.Fault{Path: "/latest/api/token", Hang: true, Times: -1})
	_, err := getCredentials(t, ecr.Options{}, imageRequest(privateHost))
	if err == nil {
		t.Fatal("there are credentials")
	}
	for _, want := range []string{"PUT http://", "/latest/api/token: no response", "--http-put-response-hop-limit 2"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant in it: %s", err, want)
		}
	}
	if strings.Contains(err.Error(), "assign a role") {
		t.Errorf("the role is not the cause: %v", err)
	}
}
