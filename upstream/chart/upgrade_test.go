// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/helm"
)

// TestUpgradeChart verifies upgrades to a chart with an additional value. With --reuse-values, Helm
// rejects the upgrade and names the value. With --reset-then-reuse-values, which the notes
// recommend, the upgrade succeeds. It also succeeds after a failed upgrade and after a rollback of
// a rollback. A dry run of an uninstall changes nothing.
func TestUpgradeChart(t *testing.T) {
	s := startAPIServer(t)
	earlier := filepath.Join(t.TempDir(), "chart")
	must.Do(t, os.CopyFS(earlier, os.DirFS(helm.ChartDir(t))))
	for name, was := range map[string]*regexp.Regexp{
		"values.yaml":              regexp.MustCompile(`(?m)^keep: .*\n`),
		"templates/daemonset.yaml": regexp.MustCompile(`(?m)^ +- --keep=.*\n`),
		"values.schema.json":       regexp.MustCompile(`(?m)^    "keep",\n`),
	} {
		path := filepath.Join(earlier, name)
		data := must.Get(os.ReadFile(path))(t)
		if len(was.FindAll(data, -1)) != 1 {
			t.Fatalf("%s has not one %s", name, was)
		}
		must.Do(t, os.WriteFile(path, was.ReplaceAll(data, nil), 0o600))
	}
	in := []string{"--namespace", namespace}
	s.helm.Run(t, append([]string{"install", release, earlier, withValues(values{"restart": "Never"}).writeFile(t)}, in...)...)
	first := s.configMapName(t, release)
	upgrade := append([]string{"upgrade", release, helm.ChartDir(t)}, in...)
	if _, _, err := s.helm.Output(t.Context(), append(upgrade, "--reuse-values")...); err == nil || !strings.Contains(err.Error(), "missing property 'keep'") {
		t.Fatalf("--reuse-values: %v", err)
	}
	s.checkObjects(t, "after a refused upgrade", releaseObjects(first))
	s.helm.Run(t, append(upgrade, "--reset-then-reuse-values", "--set", "mode=DryRun")...)
	if _, _, err := s.helm.Output(t.Context(), append(upgrade, "--reset-then-reuse-values", "--set-string", "nodeSelector.pool=a/b/c")...); err == nil || !strings.Contains(err.Error(), "nodeSelector: Invalid value") {
		t.Fatalf("a label that is none: %v", err)
	}
	s.helm.Run(t, append(upgrade, "--reset-then-reuse-values", "--set", "mode=Install", "--set", "nodeSelector=null")...)
	if _, _, err := s.helm.Output(t.Context(), append([]string{"rollback", release}, in...)...); err == nil {
		t.Error("without a revision it is not the one before, which failed")
	}
	for range 2 {
		s.helm.Run(t, append([]string{"rollback", release, "1"}, in...)...)
		s.checkObjects(t, "after rollback", releaseObjects(first))
	}
	s.helm.Run(t, append([]string{"uninstall", release, "--dry-run"}, in...)...)
	s.checkObjects(t, "after a dry run", releaseObjects(first))
	s.helm.Run(t, append([]string{"uninstall", release, "--no-hooks", "--keep-history"}, in...)...)
	s.checkObjects(t, "after uninstall", nil)
	s.helm.Run(t, append([]string{"rollback", release, "1"}, in...)...)
	s.checkObjects(t, "brought back", releaseObjects(first))
	if got := s.stateValue(t); got != "present" {
		t.Errorf("the state is %q", got)
	}
	s.helm.Run(t, append([]string{"uninstall", release, "--no-hooks"}, in...)...)
	if _, _, err := s.helm.Output(t.Context(), append([]string{"uninstall", release}, in...)...); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("a second uninstall: %v", err)
	}
}
