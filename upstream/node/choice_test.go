// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/kubelet"
)

func TestChooseReleases(t *testing.T) {
	for name, want := range map[string]string{
		"1.33.13":       "v1.33.13 v1.34.4 false",
		"v1.35.4":       "v1.35.4 v1.36.3 false",
		"1.34.1":        "v1.34.1 v1.35.4 false",
		kubelet.Version: "v1.36.3 v1.36.3 false",
		"1.37.2":        "v1.37.2 v1.37.2 false",
		embeddedRegcred: "v1.36.3 v1.36.3 true",
		"1.30.4":        "its API server has to be one minor release ahead, and none of 1.31 is known: there are v1.32.13, v1.33.13,",
		"1.33":          "not a release of Kubernetes: write it as 1.33.13, or inside",
		"":              "not a release of Kubernetes",
	} {
		c, err := parseChoice(name)
		got := fmt.Sprint(c.kubelet, " ", c.control, " ", c.hasRegcred)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("-kubelet %s: got %q, want %q", name, got, want)
		}
	}
}

// selectKubelet sets the version of the run's kubelet until the test ends.
func selectKubelet(t *testing.T, version string) {
	t.Helper()
	before := selectedVersions
	t.Cleanup(func() { selectedVersions = before })
	selectedVersions.kubelet = version
}

func TestFeatureGate(t *testing.T) {
	for version, want := range map[string]string{
		"v1.32.13": "has false, skipped true, config map[]",
		"v1.33.13": "has false, skipped false, config map[featureGates:map[KubeletServiceAccountTokenForCredentialProviders:true]]",
		"v1.34.4":  "has true, skipped false, config map[]",
		"v1.36.3":  "has true, skipped false, config map[]",
	} {
		t.Run(version, func(t *testing.T) {
			selectKubelet(t, version)
			var config map[string]any
			skipped := true
			t.Run("test", func(t *testing.T) { config = FeatureServiceAccounts.EnablingConfig(t); skipped = false })
			if got := fmt.Sprintf("has %v, skipped %v, config %v", FeatureServiceAccounts.IsEnabled(), skipped, config); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// kubeletLogs holds the logs of two kubelets for the same events: a plugin run, a failing
// plugin, a failed token request, and a plugin that returns its token.
var kubeletLogs = map[string]string{
	"v1.34.4": `I1123 18:00:00.000000 1 plugin.go:683] Getting image a.example/app credentials from external exec plugin first
E1123 18:00:00.000000 1 plugin.go:520] Failed getting credential from external registry credential provider: error execing credential provider plugin first for image a.example/app: exit status 1: no
E1123 18:00:00.000000 1 plugin.go:455] Error getting service account token team/puller: no
E1123 18:00:00.000000 1 plugin.go:535] Credential provider plugin returned the service account token as the password for image "a.example/echo", which is not allowed
`,
	"v1.36.3": `I1123 18:00:00.000000 1 plugin.go:687] "Getting image credentials from external exec plugin" pluginName="first" image="a.example/app"
E1123 18:00:00.000000 1 plugin.go:420] "Failed to provide credentials for image" err="exit status 1: no" provider="first" image="a.example/app"
E1123 18:00:00.000000 1 plugin.go:418] "Failed to provide credentials for image" err="token: no" provider="second" image="a.example/app" pod="team/p"
E1123 18:00:00.000000 1 plugin.go:418] "Failed to provide credentials for image" err=<
	returned the token
 > provider="first" image="a.example/echo" pod="team/p"
`,
}

// TestKubeletLogs checks that the logs of both kubelets are parsed to the same result.
func TestKubeletLogs(t *testing.T) {
	for version, log := range kubeletLogs {
		t.Run(version, func(t *testing.T) {
			selectKubelet(t, version)
			path := filepath.Join(t.TempDir(), "kubelet.log")
			must.Do(t, os.WriteFile(path, []byte(log), 0o600))
			k := &Kubelet{process: &testProcess{log: path}}
			if diff := cmp.Diff([]PluginRun{{"first", "a.example/app"}}, k.PluginRuns(t)); diff != "" {
				t.Errorf("runs (-want +got):\n%s", diff)
			}
			for f, want := range map[FailureFilter]int{
				{Provider: "first", Image: "a.example/app"}:                          1,
				{Provider: "second", Image: "a.example/app", Account: "team/puller"}: 1,
				{Provider: "first", Image: "a.example/echo"}:                         1,
				{Provider: "second", Image: "a.example/other"}:                       0,
				{Provider: "third"}: 0,
			} {
				if got := k.Failures(t, f); len(got) != want {
					t.Errorf("%+v: got %q, want %d", f, got, want)
				}
			}
		})
	}
}
