// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"net/http"
	"testing"
)

// TestRoute: metadata and container endpoints are reached without a proxy, and
// a redirect leads nowhere but to where it came from.
func TestRoute(t *testing.T) {
	for _, address := range []string{
		"http://169.254.169.254/latest/api/token", "http://169.254.170.2/v2/credentials", "http://169.254.170.23/v1/credentials",
		"http://[fd00:ec2::254]/latest/api/token", "http://[fd00:ec2::23]/v1/credentials", "http://[::ffff:169.254.169.254]/",
	} {
		req, err := http.NewRequest(http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if proxy, err := route(req); proxy != nil || err != nil {
			t.Errorf("%s: got %v, %v, want no proxy", address, proxy, err)
		}
	}
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
