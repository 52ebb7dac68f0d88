// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/lint"
)

// TestCheckFindings: all is well only if nothing but remarks was found.
func TestCheckFindings(t *testing.T) {
	for _, tt := range []struct {
		name     string
		findings []lint.Finding
		want     []Result
	}{
		{"none", nil, []Result{OK}},
		{"a remark", []lint.Finding{{Severity: lint.SeverityInfo}}, []Result{OK}},
		{"a warning, and a remark", []lint.Finding{{Severity: lint.SeverityWarning}, {Severity: lint.SeverityInfo}}, []Result{Warn}},
		{"an error", []lint.Finding{{Severity: lint.SeverityError}}, []Result{Fail}},
		{"a warning, for which a kubelet exits", []lint.Finding{{Severity: lint.SeverityWarning, Rule: "missing-binary"}}, []Result{Fail}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &Report{}
			r.checkFindings("lint", tt.findings, "fine")
			var got []Result
			for _, c := range r.Checks {
				got = append(got, c.Result)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
