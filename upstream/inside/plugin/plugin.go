// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

// All log calls are in this file, because --vmodule selects log calls by file name, and the
// kubelet's own package logs from plugin.go. Lines that the kubelet also logs begin with the same
// words and have the same keys, because users and tests search logs for them.

import (
	"errors"
	"strings"

	"k8s.io/klog/v2"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
)

// logExec logs the run of a plugin.
func logExec(e *regcred.Event) {
	klog.V(5).InfoS("Getting image credentials from external exec plugin", "pluginName", e.Provider, "image", e.Image,
		"duration", e.Duration, "err", e.Err)
}

// logAttempts logs a lookup's failed and skipped providers.
func logAttempts(pod *regcred.Pod, image string, res *regcred.Result, err error) {
	for i := range res.Attempts {
		a := &res.Attempts[i]
		about := []any{"provider", a.Provider, "image", image}
		if a.Identity != nil && pod != nil {
			about = append(about, "pod", klog.KRef(pod.Namespace, pod.Name), "podUID", pod.UID, "serviceAccount", klog.KRef(pod.Namespace, pod.ServiceAccount))
		}
		switch {
		case a.Err != nil:
			logFailure(a, about)
		case a.Identity != nil && a.Identity.Missing != "":
			klog.V(5).ErrorS(errors.New(a.Skipped), "Failed to get service account data", about...)
		case a.Skipped != "":
			klog.V(5).InfoS("Provider was not run", append(about, "reason", a.Skipped)...)
		}
	}
	if isCanceled(err) {
		klog.ErrorS(err, "Lookup of credentials for image ended early", "image", image)
	}
}

func logFailure(a *regcred.Attempt, about []any) {
	about = append(about, "stage", a.Stage)
	if strings.Contains(strings.TrimSpace(a.Stderr), "\n") { // the error already includes the last line
		about = append(about, "stderr", a.Stderr)
	}
	klog.ErrorS(a.Err, "Failed to provide credentials for image", about...)
}

// logReloaded logs that a changed configuration is in use.
func logReloaded(path string, c *config.Config) {
	names := make([]string, len(c.Providers))
	for i := range c.Providers {
		names[i] = c.Providers[i].Name
	}
	klog.InfoS("Changed credential provider configuration is in use", "path", path, "hash", c.Hash(), "providers", names)
}

// logRejected logs that a changed configuration was rejected.
func logRejected(path string, err error) {
	klog.ErrorS(err, "Changed credential provider configuration cannot be used, the former one stays", "path", path)
}

// logMetrics logs that the metrics could not be registered.
func logMetrics(err error) {
	klog.ErrorS(err, "Metrics of credential providers are not shown")
}
