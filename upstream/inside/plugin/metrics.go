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

// KubeletSubsystem is what the names of these metrics begin with.
const KubeletSubsystem = "kubelet"

// The metrics have the names, labels and buckets of the kubelet's own; reloads, which it
// has not, those of the API server's configurations that are read again.
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

	reloads = metrics.NewCounterVec(&metrics.CounterOpts{
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

// registerMetrics shows the metrics, once in a process. A process that has the
// kubelet's own of these names already is a test: it goes on without them.
var registerMetrics = sync.OnceFunc(func() {
	err := errors.Join(
		legacyregistry.Register(pluginErrors),
		legacyregistry.Register(pluginDuration),
		legacyregistry.Register(reloads),
		legacyregistry.CustomRegister(configInfo),
	)
	if err != nil {
		logMetrics(err)
	}
})

func recordReload(status string) { reloads.WithLabelValues(status).Inc() }

func recordConfigHash(hash string) { configHash.SetHashes(hash) }

// observe counts and logs what the Keyring reports.
func observe(e regcred.Event) {
	if e.Kind != regcred.EventExec {
		return
	}
	pluginDuration.WithLabelValues(e.Provider).Observe(e.Duration.Seconds())
	if isRunError(e.Stage) {
		pluginErrors.WithLabelValues(e.Provider).Inc()
	}
	logExec(&e)
}

// isRunError reports whether a stage is one of the process, as the kubelet
// counts: an answer that cannot be read is none.
func isRunError(s protocol.Stage) bool {
	return s == protocol.StageStart || s == protocol.StageExec || s == protocol.StageTimeout
}
