// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics"

	"github.com/regcred/regcred"
)

// NewMetrics empties the metrics and returns a function that gathers them. The test's
// process has the kubelet's own ones where all are gathered.
func NewMetrics() (gather func() ([]*dto.MetricFamily, error)) {
	registerMetrics() // which makes them
	pluginErrors.Reset()
	pluginDuration.Reset()
	reloads.Reset()
	r := metrics.NewKubeRegistry()
	r.Registerer().MustRegister(pluginErrors, pluginDuration, reloads, configInfo)
	return r.Gather
}

// Forget makes the process one in which nothing was registered.
func Forget() { current.Store(nil) }

// Later makes the process's providers believe that it is later than it is, so that
// their files have been at rest.
func Later(d time.Duration) {
	current.Load().now = func() time.Time { return time.Now().Add(d) }
}

// Observe counts what a Keyring reports.
func Observe(e regcred.Event) { observe(e) }
