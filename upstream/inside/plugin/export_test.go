// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics"

	"github.com/regcred/regcred/config"
)

// NewMetrics empties the metrics and returns a function that gathers them. The test's
// process has the kubelet's own ones where all are gathered.
func NewMetrics() (gather func() ([]*dto.MetricFamily, error)) {
	registerMetrics() // which makes them
	pluginErrors.Reset()
	pluginDuration.Reset()
	r := metrics.NewKubeRegistry()
	r.Registerer().MustRegister(pluginErrors, pluginDuration, configInfo)
	return r.Gather
}

// Forget makes the process one in which nothing was registered.
func Forget() { current.Store(nil) }

// Later makes the process's providers believe that it is later than it is, so that
// their files have been at rest.
func Later(d time.Duration) {
	current.Load().now = func() time.Time { return time.Now().Add(d) }
}

// HoldCheck lets the next check of the files wait where it has read them, and returns
// functions that wait until it does, and let it go on.
func HoldCheck() (held, release func()) {
	p, at, on := current.Load(), make(chan struct{}), make(chan struct{})
	p.use = func(c *config.Config) error {
		close(at)
		<-on
		p.use = p.takeOver
		return p.use(c)
	}
	return func() { <-at }, func() { close(on) }
}
