// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics"

	"github.com/regcred/regcred"
)

// NewMetrics resets this package's metrics and returns a function that gathers them. They need
// their own registry, because the kubelet's own metrics are already in the process's global
// registry.
func NewMetrics() (gather func() ([]*dto.MetricFamily, error)) {
	registerMetrics() // creates them
	pluginErrors.Reset()
	pluginDuration.Reset()
	reloadCount.Reset()
	r := metrics.NewKubeRegistry()
	r.Registerer().MustRegister(pluginErrors, pluginDuration, reloadCount, configInfo)
	return r.Gather
}

// ResetProviders resets the registered providers.
func ResetProviders() { currentProviders.Store(nil) }

// ShiftClock shifts the clock of the registered providers, so that the configuration files are old
// enough to be trusted.
func ShiftClock(d time.Duration) {
	currentProviders.Load().now = func() time.Time { return time.Now().Add(d) }
}

// Observe passes an event to observe.
func Observe(e regcred.Event) { observeEvent(e) }
