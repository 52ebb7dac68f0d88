// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package public_test

import (
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/hostpattern/public"
)

func TestValidate(t *testing.T) {
	for pattern, want := range map[string]string{
		"*.co.uk":                           `"co.uk"`,
		"r-*.github.io":                     `"github.io"`,
		"*.GitHub.io:443":                   `"github.io"`,
		"*.compute.amazonaws.com":           `"*.compute.amazonaws.com"`,
		"*.eu-west-1.compute.amazonaws.com": `"eu-west-1.compute.amazonaws.com"`,
		"r.*.compute.amazonaws.com":         `"*.compute.amazonaws.com"`,
		"*.example":                         "last two labels",
		"https://r.example":                 "must have the form host[:port]",
		"*.r.github.io":                     "",
		"*.shop.co.uk":                      "",
		"r.github.io":                       "",
		"co.uk":                             "",
		"[::1]:5000":                        "",
		"*.azurecr.io":                      "",
		"*-docker.pkg.dev":                  "",
		"*.dkr.ecr.*.amazonaws.com":         "",
		"*.svc.cluster.local":               "",
		"*.registry.example:5000":           "",
		"*.*.registry.internal":             "",
	} {
		err := public.Validate(pattern)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", pattern, err, want)
		}
	}
}
