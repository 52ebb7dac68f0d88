// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// PluginRun is a run of a plugin, as the kubelet's log has it.
type PluginRun struct{ Plugin, Image string }

// pluginRuns are the records of a run, the second until 1.34.
var pluginRuns = regexp.MustCompile(`"Getting image credentials from external exec plugin" pluginName="([^"]+)" image="([^"]*)"` +
	`|Getting image (\S+) credentials from external exec plugin (\S+)`)

// PluginRuns are the runs of plugins in the kubelet's log, in order.
func (k *Kubelet) PluginRuns(t testing.TB) (list []PluginRun) {
	t.Helper()
	for _, m := range pluginRuns.FindAllStringSubmatch(strings.Join(k.Log(t), "\n"), -1) {
		list = append(list, PluginRun{m[1] + m[4], m[2] + m[3]})
	}
	return list
}

// Failure is a provider that has failed.
type Failure struct {
	Provider string
	Image    string // without the tag; "" is any
	Account  string // of the pod: "team/puller"; "" if it does not matter
}

// failures are in the kubelet's log. An error that ends with a line break is in
// lines of its own.
var failures = regexp.MustCompile(`(?s)"Failed to provide credentials for image" err=(?:<\n\t(.*?)\n >|"((?:[^"\\]|\\.)*)") provider="([^"]*)" image="([^"]*)"`)

// Failures is why, by the kubelet's log, a provider has failed, each time.
func (k *Kubelet) Failures(t testing.TB, f Failure) (why []string) {
	t.Helper()
	if !NamedFailures.Has() {
		return k.unnamed(t, f)
	}
	for _, m := range failures.FindAllStringSubmatch(strings.Join(k.Log(t), "\n"), -1) {
		if m[3] == f.Provider && (f.Image == "" || m[4] == f.Image) {
			why = append(why, m[1]+m[2])
		}
	}
	return why
}

// unnamed is [Kubelet.Failures] of kubelets that name provider and image where the
// plugin's process has failed, the service account alone where that or its token
// was not to be had, and nothing else.
func (k *Kubelet) unnamed(t testing.TB, f Failure) (why []string) {
	t.Helper()
	process := fmt.Sprintf("error execing credential provider plugin %s for image %s", f.Provider, f.Image)
	for _, record := range k.Log(t, "plugin.go") {
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
