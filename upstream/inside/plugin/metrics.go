// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"errors"
	"sync"

	"k8s.io/apiserver/pkg/util/configmetrics"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/regcred/regcred"
	protocol "github.com/regcred/regcred/plugin"
)

// KubeletSubsystem is the prefix of the metrics' names.
const KubeletSubsystem = "kubelet"

// These metrics have the names, labels and buckets of the kubelet's metrics. The kubelet has no
// metrics of reloads. Those follow the API server's metrics of reloaded configurations.
var (
	pluginErrors = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem:      KubeletSubsystem,
		Name:           "credential_provider_plugin_errors_total",
		Help:           "Runs of a credential provider plugin that could not be started, were killed, or ended with another status than 0",
		StabilityLevel: metrics.ALPHA,
	}, []string{"plugin_name"})

	pluginDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem:      KubeletSubsystem,
		Name:           "credential_provider_plugin_duration",
		Help:           "Seconds that a run of a credential provider plugin took",
		Buckets:        metrics.DefBuckets,
		StabilityLevel: metrics.ALPHA,
	}, []string{"plugin_name"})

	reloadCount = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem:      KubeletSubsystem,
		Name:           "credential_provider_config_automatic_reloads_total",
		Help:           "Changed credential provider configurations that were taken over, and attempts that failed, one for each lookup while the one there cannot be used",
		StabilityLevel: metrics.ALPHA,
	}, []string{"status"})

	configHash = configmetrics.NewAtomicHashProvider()
	configInfo = configmetrics.NewConfigInfoCustomCollector(metrics.NewDesc(
		metrics.BuildFQName("", KubeletSubsystem, "credential_provider_config_info"),
		"Always 1; the label hash identifies the credential provider configuration in use",
		[]string{"hash"}, nil, metrics.ALPHA, "",
	), configHash)
)

// registerMetrics registers the metrics once per process. If registration fails because the
// kubelet's own metrics are already registered, the process is a test and continues.
var registerMetrics = sync.OnceFunc(func() {
	err := errors.Join(
		legacyregistry.Register(pluginErrors),
		legacyregistry.Register(pluginDuration),
		legacyregistry.Register(reloadCount),
		legacyregistry.CustomRegister(configInfo),
	)
	if err != nil {
		logMetrics(err)
	}
})

func recordReload(status string) { reloadCount.WithLabelValues(status).Inc() }

func recordConfigHash(hash string) { configHash.SetHashes(hash) }

// observeEvent counts and logs plugin runs.
func observeEvent(e regcred.Event) {
	if e.Kind != regcred.EventExec {
		return
	}
	pluginDuration.WithLabelValues(e.Provider).Observe(e.Duration.Seconds())
	if isRunError(e.Stage) {
		pluginErrors.WithLabelValues(e.Provider).Inc()
	}
	logExec(&e)
}

// isRunError reports whether a run failed in a stage at which the process failed. As in the
// kubelet, a response that cannot be decoded is not such a failure.
func isRunError(s protocol.Stage) bool {
	return s == protocol.StageStart || s == protocol.StageExec || s == protocol.StageTimeout
}
