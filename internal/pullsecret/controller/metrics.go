// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package controller

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/pullsecret"
)

// The metrics that a kubelet also has keep the kubelet's names and labels.
var (
	pluginDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "kubelet_credential_provider_plugin_duration", Help: "Duration of a plugin's run in seconds.", Buckets: prometheus.DefBuckets,
	}, []string{"plugin_name"})
	pluginErrors = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kubelet_credential_provider_plugin_errors_total", Help: "Number of failed runs of a plugin.",
	}, []string{"plugin_name"})
	configInfo = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kubelet_credential_provider_config_info", Help: "The hash of the provider configuration in use.",
	}, []string{"hash"})
	writes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "regcred_pull_secret_writes_total", Help: "Number of updates of Secrets with credentials, by HTTP status.",
	}, []string{"code"})
	failures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "regcred_pull_secret_refresh_failures_total", Help: "Number of refreshes of a Secret that failed or are waiting for a retry, by provider.",
	}, []string{"provider"})
	reloads = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "regcred_pull_secret_config_reloads_total", Help: "Number of configuration changes, by result.",
	}, []string{"result"})
)

// collectors are registered with controller-runtime's registry while a controller runs.
func collectors() []prometheus.Collector {
	return []prometheus.Collector{pluginDuration, pluginErrors, configInfo, writes, failures, reloads}
}

func registerCollector(r *reconciler) (unregister func(), err error) {
	all := append(collectors(), secretCollector{r})
	for i, c := range all {
		if err := metrics.Registry.Register(c); err != nil {
			for _, done := range all[:i] {
				metrics.Registry.Unregister(done)
			}
			return nil, err
		}
	}
	return func() {
		for _, c := range all {
			metrics.Registry.Unregister(c)
		}
	}, nil
}

func observe(e regcred.Event) {
	if e.Kind != regcred.EventExec {
		return
	}
	pluginDuration.WithLabelValues(e.Provider).Observe(e.Duration.Seconds())
	if e.Err != nil {
		pluginErrors.WithLabelValues(e.Provider).Inc()
	}
}

func setConfigInfo(c *config.Config) {
	configInfo.Reset()
	configInfo.WithLabelValues(c.Hash()).Set(1)
}

func countWrite(err error) {
	code := 200
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		code = int(status.Status().Code)
	} else if err != nil {
		code = 0
	}
	writes.WithLabelValues(strconv.Itoa(code)).Inc()
}

func countFailures(in pullsecret.ContentInput) {
	for provider, o := range in.Outcomes {
		if len(o.Errors) > 0 {
			failures.WithLabelValues(provider).Inc()
		}
	}
}

// secretCollector reports the state of the Secrets in the caches.
type secretCollector struct{ *reconciler }

var (
	secretsDesc = prometheus.NewDesc("regcred_pull_secrets", "Number of Secrets: current, incomplete (a credential is missing), expired, or foreign.", []string{"state"}, nil)
	expiryDesc  = prometheus.NewDesc("regcred_pull_secret_earliest_expiry_timestamp_seconds", "The earliest expiry of a credential in any Secret.", nil, nil)
	issuedDesc  = prometheus.NewDesc("regcred_pull_secret_oldest_issue_timestamp_seconds", "When the oldest credential in any Secret was issued.", nil, nil)
)

func (c secretCollector) Describe(to chan<- *prometheus.Desc) {
	to <- secretsDesc
	to <- expiryDesc
	to <- issuedDesc
}

func (c secretCollector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	counts := map[string]int{pullsecret.StateCurrent: 0, pullsecret.StateIncomplete: 0, pullsecret.StateExpired: 0, "foreign": 0}
	var expires, issued time.Time
	earlier := func(at *time.Time, t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(*at)) {
			*at = t
		}
	}
	now := time.Now()
	for _, byName := range c.secrets {
		list := listOf(secretKind)
		if err := byName.List(ctx, list); err != nil {
			continue // not started yet
		}
		for _, o := range list.Items {
			status := pullsecret.ParseStatus(o.Annotations)
			for _, e := range status.Entries {
				earlier(&issued, e.Issued)
			}
			earlier(&expires, status.Expires())
			counts[secretState(&o, status, now)]++
		}
	}
	for state, n := range counts {
		to <- prometheus.MustNewConstMetric(secretsDesc, prometheus.GaugeValue, float64(n), state)
	}
	for desc, t := range map[*prometheus.Desc]time.Time{expiryDesc: expires, issuedDesc: issued} {
		if !t.IsZero() {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(t.Unix()))
		}
	}
}

func secretState(o *metav1.PartialObjectMetadata, s pullsecret.Status, now time.Time) string {
	if o.Labels[pullsecret.LabelManagedBy] != pullsecret.ManagedBy {
		return "foreign"
	}
	return s.State(now)
}

// listNamespaces returns the names of the selected namespaces.
func (r *reconciler) listNamespaces(ctx context.Context) (names []string, err error) {
	list := listOf(namespaceKind)
	if err := r.namespaces.List(ctx, list); err != nil {
		return nil, err
	}
	for _, o := range list.Items {
		names = append(names, o.Name)
	}
	return names, nil
}

func listOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list
}
