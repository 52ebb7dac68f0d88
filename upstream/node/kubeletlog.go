// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// PluginRun is one plugin run in the kubelet's log.
type PluginRun struct{ Plugin, Image string }

// pluginRunPattern matches the log record of a plugin run. Kubelets up to 1.34 use the second form.
var pluginRunPattern = regexp.MustCompile(`"Getting image credentials from external exec plugin" pluginName="([^"]+)" image="([^"]*)"` +
	`|Getting image (\S+) credentials from external exec plugin (\S+)`)

// PluginRuns returns the plugin runs in the kubelet's log, in order.
func (k *Kubelet) PluginRuns(t testing.TB) (list []PluginRun) {
	t.Helper()
	for _, m := range pluginRunPattern.FindAllStringSubmatch(strings.Join(k.LogRecords(t), "\n"), -1) {
		list = append(list, PluginRun{m[1] + m[4], m[2] + m[3]})
	}
	return list
}

// FailureFilter selects failures of a provider.
type FailureFilter struct {
	Provider string
	Image    string // image without the tag; "" matches any image
	Account  string // the pod's service account, such as "team/puller"; "" if the pod has none
}

// failurePattern matches the log record of a failure. klog puts an error with a line break on
// separate lines.
var failurePattern = regexp.MustCompile(`(?s)"Failed to provide credentials for image" err=(?:<\n\t(.*?)\n >|"((?:[^"\\]|\\.)*)") provider="([^"]*)" image="([^"]*)"`)

// Failures returns the error of each matching failure in the kubelet's log.
func (k *Kubelet) Failures(t testing.TB, f FailureFilter) (why []string) {
	t.Helper()
	if !FeatureNamedFailures.IsEnabled() {
		return k.unnamedFailures(t, f)
	}
	for _, m := range failurePattern.FindAllStringSubmatch(strings.Join(k.LogRecords(t), "\n"), -1) {
		if m[3] == f.Provider && (f.Image == "" || m[4] == f.Image) {
			why = append(why, m[1]+m[2])
		}
	}
	return why
}

// unnamedFailures implements [Kubelet.Failures] for older kubelets. These log the provider and the
// image only if the plugin's process failed. If reading the service account or requesting its token
// failed, they log only the service account.
func (k *Kubelet) unnamedFailures(t testing.TB, f FailureFilter) (why []string) {
	t.Helper()
	process := fmt.Sprintf("error execing credential provider plugin %s for image %s", f.Provider, f.Image)
	for _, record := range k.LogRecords(t, "plugin.go") {
		_, text, _ := strings.Cut(record, "] ")
		switch {
		case strings.Contains(text, process),
			f.Account != "" && strings.HasPrefix(text, "Error getting service account token "+f.Account+": "),
			f.Account != "" && strings.HasPrefix(text, "Failed to get service account "+f.Account+": "),
			f.Image != "" && strings.Contains(text, fmt.Sprintf("returned the service account token as the password for image %q", f.Image)):
			why = append(why, text)
		}
	}
	return why
}
