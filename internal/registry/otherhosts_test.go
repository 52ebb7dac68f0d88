// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registry_test

import (
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/plugin"
)

func TestOtherHosts(t *testing.T) {
	for _, o := range []registry.OtherHosts{"", registry.OtherHostsFail} {
		_, err := o.Response("registry.example:5000", "none of Amazon ECR's", "name it with --allow-host")
		if err == nil {
			t.Fatalf("%q: got a response, want an error", o)
		}
		for _, want := range []string{`"registry.example:5000"`, "none of Amazon ECR's", "name it with --allow-host", "matchImages", "--other-hosts=empty"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error %q does not have %q", err, want)
			}
		}
	}
	resp, err := registry.OtherHostsEmpty.Response("registry.example", "none", "do this")
	if err != nil || len(resp.Auth) != 0 || resp.CacheKeyType != plugin.CacheRegistry || *resp.CacheDuration != 0 {
		t.Errorf("empty: got %+v and %v, want an empty response that is not kept", resp, err)
	}
}
