// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/must"
	protocol "github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/inside/plugin"
	"github.com/regcred/regcred/upstream/kubelet"
)

// TestMetrics verifies that both packages have the same metrics with the same values. The
// executables work, fail, are missing, or print an invalid response.
func TestMetrics(t *testing.T) {
	list := []provider{{name: "works"}, {name: "fails", script: "exit 1\n"}, {name: "nonsense", script: "echo x\n"}, {name: "leaves", script: "rm \"$0\"\n"}}
	var at *pluginDir
	gather := map[string]func() ([]*dto.MetricFamily, error){theirs.name: legacyregistry.DefaultGatherer.Gather, ours.name: plugin.NewMetrics()}
	var both [][]string
	for _, s := range implementations {
		before := metricValues(t, gather[s.name])
		at = newPluginDir(t, list...)
		must.Do(t, s.register(at.path, at.dir, kubelet.TokenFuncs{}))
		for range 2 {
			s.keyring("", "", "", "").Lookup("registry.example/app")
		}
		both = append(both, slices.DeleteFunc(metricValues(t, gather[s.name]), func(v string) bool { return slices.Contains(before, v) }))
	}
	if diff := cmp.Diff(both[0], both[1]); diff != "" {
		t.Errorf("-kubelet +regcred\n%s", diff)
	}
	_, hash, err := kubelet.ReadConfig(at.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"kubelet_credential_provider_config_info GAUGE hash=" + hash + " 1",
		"kubelet_credential_provider_plugin_errors_total COUNTER plugin_name=fails 2",
		"kubelet_credential_provider_plugin_errors_total COUNTER plugin_name=leaves 1",
		"kubelet_credential_provider_plugin_duration HISTOGRAM plugin_name=nonsense 2 of 11 buckets",
	} {
		if !slices.Contains(both[1], want) {
			t.Errorf("there is no %q in %q", want, both[1])
		}
	}
}

// TestTimeouts verifies that a run that is killed at the timeout is counted as an error, as in the
// kubelet.
func TestTimeouts(t *testing.T) {
	gather := plugin.NewMetrics()
	plugin.Observe(regcred.Event{Kind: regcred.EventExec, Provider: "slow", Stage: protocol.StageTimeout, Duration: time.Minute})
	if got, want := metricValues(t, gather), "kubelet_credential_provider_plugin_errors_total COUNTER plugin_name=slow 1"; !slices.Contains(got, want) {
		t.Errorf("there is no %q in %q", want, got)
	}
}

// metricValues returns the metrics of credential providers, without durations.
func metricValues(t *testing.T, gather func() ([]*dto.MetricFamily, error)) (list []string) {
	t.Helper()
	families := must.Get(gather())(t)
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "kubelet_credential_provider_") {
			continue
		}
		for _, m := range f.Metric {
			text := fmt.Sprintf("%s %s", f.GetName(), f.GetType())
			for _, l := range m.Label {
				text += " " + l.GetName() + "=" + l.GetValue()
			}
			switch {
			case m.Histogram != nil:
				text += fmt.Sprintf(" %d of %d buckets", m.Histogram.GetSampleCount(), len(m.Histogram.Bucket))
			case m.Counter != nil:
				text += fmt.Sprintf(" %v", m.Counter.GetValue())
			default:
				text += fmt.Sprintf(" %v", m.Gauge.GetValue())
			}
			list = append(list, text)
		}
	}
	return list
}
