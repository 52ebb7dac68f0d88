// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"bytes"
	"net/http"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// PluginCounts holds one plugin's counters from the kubelet's metrics.
type PluginCounts struct {
	Runs   uint64 // sample count of kubelet_credential_provider_plugin_duration
	Errors uint64 // kubelet_credential_provider_plugin_errors_total; without _total until 1.33
}

// PluginCounts returns the counters by plugin name.
func (k *Kubelet) PluginCounts(t testing.TB) map[string]PluginCounts {
	t.Helper()
	families := k.Metrics(t)
	counts := map[string]PluginCounts{}
	for _, m := range families["kubelet_credential_provider_plugin_duration"].GetMetric() {
		c := counts[labelValue(m, "plugin_name")]
		c.Runs = m.GetHistogram().GetSampleCount()
		counts[labelValue(m, "plugin_name")] = c
	}
	for _, name := range []string{"kubelet_credential_provider_plugin_errors_total", "kubelet_credential_provider_plugin_errors"} {
		for _, m := range families[name].GetMetric() {
			c := counts[labelValue(m, "plugin_name")]
			c.Errors = uint64(m.GetCounter().GetValue())
			counts[labelValue(m, "plugin_name")] = c
		}
	}
	return counts
}

// Metrics returns all of the kubelet's metrics by name.
func (k *Kubelet) Metrics(t testing.TB) map[string]*dto.MetricFamily {
	t.Helper()
	data, err := httpGet(t.Context(), http.DefaultClient, k.readOnlyURL+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func labelValue(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// ConfigHash returns the kubelet's hash of its credential provider configuration.
func (k *Kubelet) ConfigHash(t testing.TB) string {
	t.Helper()
	for _, m := range k.Metrics(t)["kubelet_credential_provider_config_info"].GetMetric() {
		return labelValue(m, "hash")
	}
	t.Fatal("the kubelet's metrics have no kubelet_credential_provider_config_info")
	return ""
}
