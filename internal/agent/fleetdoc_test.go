// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testenv"
)

func fleetDoc(t *testing.T) string {
	t.Helper()
	data := must.Get(os.ReadFile("../../docs/fleet.md"))(t)
	return string(data)
}

// TestDocChart verifies that the helm commands in docs/fleet.md use a released chart. The
// chart in a checkout has no image, so its pods could not start.
func TestDocChart(t *testing.T) {
	helm := regexp.MustCompile(`(?m)^\$ helm (?:install|upgrade|template) regcred (\S+)`)
	commands := helm.FindAllStringSubmatch(fleetDoc(t), -1)
	if len(commands) < 5 {
		t.Errorf("it has %d commands", len(commands))
	}
	for _, m := range commands {
		if m[1] != "regcred-chart_VERSION.tgz" {
			t.Errorf("%s: the chart of no release", m[0])
		}
	}
}

// TestDocMetrics verifies that docs/fleet.md lists exactly the metrics, with their types and labels.
func TestDocMetrics(t *testing.T) {
	all := strings.Replace(statusWithCounts, `"lastRun"`, `"lastError":{"time":"2026-01-02T12:00:00Z","stage":"timeout","message":"m"},"lastRun"`, 1)
	exitCodes[all] = 1
	p := newPod(t, commandResponses{"install": {installed}, "status": {all}})
	synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Second) })
	registry := must.Get(p.Metrics("v1.2.3"))(t)
	families := must.Get(registry.Gather())(t)
	got, want := map[string]string{}, map[string]string{}
	for _, f := range families {
		labels := ""
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels += " " + l.GetName()
		}
		want[f.GetName()] = strings.ToLower(f.GetType().String()) + labels
	}
	row := regexp.MustCompile("(?m)^\\| `(regcred_[a-z_]+)(?:\\{([a-z,]+)\\})?` \\| ([a-z]+) \\|")
	for _, m := range row.FindAllStringSubmatch(fleetDoc(t), -1) {
		got[m[1]] = strings.TrimRight(m[3]+" "+strings.ReplaceAll(m[2], ",", " "), " ")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/fleet.md (-metrics +document):\n%s", diff)
	}
}

// alertsFile is a test for promtool. It defines nodes with their phases, and evaluates the rules
// after half an hour. A failing node reports "applying" at each attempt, so that it stays in
// no phase for long.
const alertsFile = `
rule_files: [rules.yaml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'regcred_node_phase{pod="good",phase="installed"}', values: '1x30'}
      - {series: 'regcred_node_phase{pod="good",phase="applying"}', values: '0x30'}
      - {series: 'regcred_node_phase{pod="good",phase="failed"}', values: '0x30'}
      - {series: 'regcred_node_drift{pod="good"}', values: '0x30'}
      - {series: 'regcred_node_mended_total{pod="good"}', values: '0x20 1x10'}
      - {series: 'regcred_node_phase{pod="left-alone",phase="unsupported"}', values: '1x30'}
      - {series: 'regcred_node_phase{pod="left-alone",phase="failed"}', values: '0x30'}
      - {series: 'regcred_node_phase{pod="bad",phase="installed"}', values: '1x5 0x25'}
      - {series: 'regcred_node_phase{pod="bad",phase="applying"}', values: '0x5 1 0 0 0 1 0 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0 0 0 1 0'}
      - {series: 'regcred_node_phase{pod="bad",phase="failed"}', values: '0x5 0 1 1 1 0 1 1 1 1 1 1 1 1 0 1 1 1 1 1 1 1 1 1 0 1'}
      - {series: 'regcred_node_drift{pod="spoilt"}', values: '2x30'}
      - {series: 'regcred_node_drift{pod="mended"}', values: '0x30'}
      - {series: 'regcred_node_mended_total{pod="mended"}', values: '0 1 2 3 4x26'}
    promql_expr_test:
      - {expr: 'count(ALERTS{alertname="RegcredRolloutStopped",alertstate="firing",pod="bad"})', eval_time: 30m, exp_samples: [{value: 1}]}
      - {expr: 'count(ALERTS{alertname="RegcredRolloutStopped"})', eval_time: 30m, exp_samples: [{value: 1}]}
      - {expr: 'count(ALERTS{alertname="RegcredDrift",alertstate="firing",pod=~"spoilt|mended"})', eval_time: 30m, exp_samples: [{value: 2}]}
      - {expr: 'count(ALERTS{alertname="RegcredDrift"})', eval_time: 30m, exp_samples: [{value: 2}]}
`

// TestDocAlerts verifies that Prometheus accepts the rules of docs/fleet.md, and that they fire
// only for nodes that need attention.
func TestDocAlerts(t *testing.T) {
	if _, err := exec.LookPath("promtool"); err != nil {
		testenv.SkipUnlessAvailable(t, "prometheus", "promtool is not installed; on Debian: apt-get install prometheus")
	}
	_, rules, found := strings.Cut(fleetDoc(t), "```yaml\ngroups:\n")
	rules, _, closed := strings.Cut("groups:\n"+rules, "```")
	if !found || !closed {
		t.Fatal("docs/fleet.md has no rules")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"rules.yaml": rules, "test.yaml": alertsFile} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "test.yaml"}} {
		cmd := exec.CommandContext(t.Context(), "promtool", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
