// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"net/http"
	"testing"
)

// TestRoute: a redirect leads nowhere but to where it came from.
func TestRoute(t *testing.T) {
	from, err := http.NewRequest(http.MethodGet, "http://169.254.170.2/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	for address, follow := range map[string]bool{
		"http://169.254.170.2/b": true, "https://169.254.170.2/a": false, "http://169.254.170.2:81/a": false, "http://169.254.170.23/a": false,
	} {
		req, err := http.NewRequest(http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Response = &http.Response{Request: from}
		if _, err := route(req); (err == nil) != follow {
			t.Errorf("%s: got %v, want it followed: %v", address, err, follow)
		}
	}
	for redirects := 1; redirects <= 5; redirects++ {
		from = from.Clone(t.Context())
		from.Response = &http.Response{Request: from.Clone(t.Context())}
		if _, err := route(from); (err == nil) != (redirects <= 3) {
			t.Errorf("%d redirects: got %v", redirects, err)
		}
	}
}
