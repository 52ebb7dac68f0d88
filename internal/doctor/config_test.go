// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/runstats"
)

// TestCheckFindings verifies that a check reports OK if all of its lint findings have
// severity info.
func TestCheckFindings(t *testing.T) {
	for _, tt := range []struct {
		name     string
		findings []finding.Finding
		want     []finding.Severity
	}{
		{"none", nil, []finding.Severity{finding.SeverityOK}},
		{"a remark", []finding.Finding{{Severity: finding.SeverityInfo}}, []finding.Severity{finding.SeverityOK}},
		{"a warning, and a remark", []finding.Finding{{Severity: finding.SeverityWarning}, {Severity: finding.SeverityInfo}}, []finding.Severity{finding.SeverityWarning}},
		{"an error", []finding.Finding{{Severity: finding.SeverityError}}, []finding.Severity{finding.SeverityError}},
		{"a warning, for which a kubelet exits", []finding.Finding{{Severity: finding.SeverityWarning, Rule: "missing-binary"}}, []finding.Severity{finding.SeverityError}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &checkResults{}
			r.reportWarningsAndErrors(tt.findings, "fine")
			var got []finding.Severity
			for _, c := range r.list {
				got = append(got, c.Severity)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestCommandNamesConfig verifies that the command suggested for a failed provider uses the
// configuration and the plugins of the current generation.
func TestCommandNamesConfig(t *testing.T) {
	root := inroot.FS{Root: t.TempDir()}
	must.Do(t, root.Mkdir("/run", 0o755))
	batch := runstats.Batch{Runs: []runstats.Run{{Provider: "one", Result: "exec", Err: "it broke"}, {Provider: "two", Result: runstats.ResultFound}}}
	must.Do(t, runstats.AddBatch(t.Context(), root.HostPath(runstats.DefaultDir), batch))
	r := &checkResults{}
	checkProviderFailures(t.Context(), &Input{Kubelet: Kubelet{Node: node.Node{Root: root.Root}.NewReader()}}, r)
	const fix = "test the provider: regcred plugin run --config /var/lib/regcred/current/config --bin-dir /var/lib/regcred/current/bin one IMAGE"
	if len(r.list) != 1 || r.list[0].Fix != fix || !strings.HasPrefix(r.list[0].Message, `provider "one" failed at least once in 1 runs since `) || !strings.HasSuffix(r.list[0].Message, ": it broke") {
		t.Errorf("got %+v", r.list)
	}
}
