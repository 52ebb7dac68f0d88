// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package serve

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/plugin"
)

// metrics are the service's metrics. Those that begin with kubelet_ have the kubelet's names and
// labels, because a kubelet that runs the dispatcher does not see the real providers.
type metrics struct {
	registry *prometheus.Registry

	pluginErrors   *prometheus.CounterVec
	pluginDuration *prometheus.HistogramVec
	configInfo     *prometheus.GaugeVec

	cache         *prometheus.CounterVec
	requests      *prometheus.CounterVec
	refused       *prometheus.CounterVec
	reports       *prometheus.CounterVec
	reloads       *prometheus.CounterVec
	reloadFailed  prometheus.Gauge
	loadTimestamp prometheus.Gauge
}

func newMetrics(connections func() int) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),

		// kubelet: pkg/credentialprovider/plugin/metrics.go. The second name has no unit there.
		pluginErrors: counter("kubelet_credential_provider_plugin_errors_total", "Number of errors from credential provider plugin", "plugin_name"),
		pluginDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_credential_provider_plugin_duration", Help: "Duration of execution in seconds for credential provider plugin", Buckets: prometheus.DefBuckets,
		}, []string{"plugin_name"}),
		configInfo: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubelet_credential_provider_config_info", Help: "Information about the last applied credential provider configuration with hash as label",
		}, []string{"hash"}),

		cache:         counter("regcred_serve_provider_lookups_total", "Number of lookups per provider, by use of the cache: hit, miss, coalesced, failure.", "provider", "result"),
		requests:      counter("regcred_serve_requests_total", "Number of requests by path and status.", "path", "status"),
		refused:       counter("regcred_serve_refused_connections_total", "Number of connections that were closed at once, by reason: user, limit, peer.", "reason"),
		reports:       counter("regcred_serve_reports_total", "Number of reports by outcome.", "outcome"),
		reloads:       counter("regcred_serve_reloads_total", "Number of times that the configuration was loaded, by result.", "result"),
		reloadFailed:  gauge("regcred_serve_last_reload_failed", "1 if the configuration could not be loaded and the previous one is used."),
		loadTimestamp: gauge("regcred_serve_config_timestamp_seconds", "Time when the configuration that is used was loaded."),
	}
	m.registry.MustRegister(m.pluginErrors, m.pluginDuration, m.configInfo, m.cache, m.requests, m.refused, m.reports, m.reloads, m.reloadFailed, m.loadTimestamp,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "regcred_serve_connections", Help: "Number of open connections."}, func() float64 { return float64(connections()) }),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// observe counts an event of the keyring.
func (m *metrics) observe(e regcred.Event) {
	switch e.Kind {
	case regcred.EventExec:
		m.pluginDuration.WithLabelValues(e.Provider).Observe(e.Duration.Seconds())
		switch e.Stage { // kubelet: only failures of the process are counted
		case plugin.StageStart, plugin.StageExec, plugin.StageTimeout, plugin.StageCanceled:
			m.pluginErrors.WithLabelValues(e.Provider).Inc()
		}
	case regcred.EventCacheHit:
		m.cache.WithLabelValues(e.Provider, "hit").Inc()
	case regcred.EventCacheMiss:
		m.cache.WithLabelValues(e.Provider, "miss").Inc()
	case regcred.EventCoalesced:
		m.cache.WithLabelValues(e.Provider, "coalesced").Inc()
	case regcred.EventFailure:
		m.cache.WithLabelValues(e.Provider, "failure").Inc()
	}
}

// loaded records the result of loading the configuration.
func (m *metrics) loaded(s *snapshot, err error) {
	if err != nil {
		m.reloads.WithLabelValues("failed").Inc()
		m.reloadFailed.Set(1)
		return
	}
	m.reloads.WithLabelValues("succeeded").Inc()
	m.reloadFailed.Set(0)
	m.loadTimestamp.Set(float64(s.loaded.Unix()))
	m.configInfo.Reset()
	m.configInfo.WithLabelValues(s.hash).Set(1)
}
