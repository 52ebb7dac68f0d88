// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/node"
	"github.com/regcred/regcred/upstream/plugins"
)

// responseScript is the format of a plugin that prints a fixed response.
const responseScript = `#!/bin/sh
cat >/dev/null
echo '%s'
`

// pluginScripts maps plugin names to scripts that fail, or whose response is not cached.
var pluginScripts = map[string]string{
	"fails":    "#!/bin/sh\ncat >/dev/null; exit 1\n",
	"dies":     "#!/bin/sh\ncat >/dev/null; kill -9 $$\n",
	"garbage":  fmt.Sprintf(responseScript, "open the pod bay doors"),
	"older":    fmt.Sprintf(responseScript, `{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1beta1"}`),
	"uncached": fmt.Sprintf(responseScript, `{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image","cacheDuration":"0s"}`),
	"gone":     "", // removed before it is run
}

// TestMetrics verifies that the kubelet's metrics and the events of regcred's Observer have the
// same counts after pulls of the same images.
func TestMetrics(t *testing.T) {
	node.SkipUnlessSupported(t)
	net, dir := node.NewFakeNetwork(t), t.TempDir()
	open := node.StartRegistry(t, net, "open.example", testregistry.Options{})
	private := newStaticSite(t, net)
	list := []provider{private.withVersion("v1")}
	linkPlugin(t, dir, plugins.Static)
	for name, script := range pluginScripts {
		writeFile(t, filepath.Join(dir, name), script)
		list = append(list, provider{name: name, version: "v1", images: []string{open.Host + "/" + name}})
	}
	images := []string{private.registry.PushApp(t, "team/app", "v1"), private.registry.PushApp(t, "team/second", "v1")}
	for name := range pluginScripts {
		image := open.PushApp(t, name+"/app", "v1")
		images = append(images, image, image)
	}

	path := writeProviders(t, filepath.Join(t.TempDir(), "config.yaml"), "v1", list...)
	kubelet := node.StartKubelet(t, node.KubeletOptions{Runtime: node.StartContainerd(t, net), ProviderConfig: path, BinDir: dir})
	must.Do(t, os.Remove(filepath.Join(dir, "gone")))
	pullAll(t, kubelet, images)

	want, got := countKubeletRuns(t, kubelet, list), countKeyringRuns(t, path, dir, images)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-kubelet +regcred):\n%s", diff)
	}
	// The counts must not be equal only because everything fails.
	expected := map[string]eventCounts{
		plugins.Static: {Runs: 1},
		"fails":        {Runs: 2, Errors: 2, Failures: 2}, "dies": {Runs: 2, Errors: 2, Failures: 2}, "gone": {Runs: 2, Errors: 2, Failures: 2},
		"garbage": {Runs: 2, Failures: 2}, "older": {Runs: 2, Failures: 2}, "uncached": {Runs: 2},
	}
	if diff := cmp.Diff(expected, want); diff != "" {
		t.Errorf("the kubelet's metrics (-want +got):\n%s", diff)
	}
}

// linkPlugin creates a symlink to a plugin in a directory.
func linkPlugin(t *testing.T, dir, name string) {
	t.Helper()
	must.Do(t, os.Symlink(filepath.Join(node.BinDir(), name), filepath.Join(dir, name)))
}

// pullAll makes the kubelet pull images one after the other, as for the containers of one pod.
func pullAll(t *testing.T, k *node.Kubelet, images []string) {
	t.Helper()
	pod := node.NewPod("default", "all", images[0])
	for i, image := range images[1:] {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: fmt.Sprintf("more%d", i), Image: image, ImagePullPolicy: corev1.PullAlways,
		})
	}
	k.AddStaticPod(t, pod)
	k.WaitStaticPodRunning(t, pod)
}

// eventCounts holds a plugin's runs, process failures and all failures.
type eventCounts struct {
	Runs, Errors uint64
	Failures     int
}

func countKubeletRuns(t *testing.T, k *node.Kubelet, list []provider) map[string]eventCounts {
	t.Helper()
	counts := map[string]eventCounts{}
	metrics, all := k.PluginCounts(t), len(k.LogRecords(t, "Failed getting credential from external registry credential provider"))
	for _, p := range list {
		m := metrics[p.name]
		failures := k.Failures(t, node.FailureFilter{Provider: p.name})
		counts[p.name] = eventCounts{Runs: m.Runs, Errors: m.Errors, Failures: len(failures)}
		all -= len(failures)
	}
	if !node.FeatureNamedFailures.IsEnabled() { // such kubelets do not log the provider of an invalid response
		for _, name := range []string{"garbage", "older"} {
			c := counts[name]
			c.Failures = all / 2
			counts[name] = c
		}
	}
	return counts
}

// countKeyringRuns looks up the images in order with regcred's keyring, and returns the counts by
// provider.
func countKeyringRuns(t *testing.T, path, dir string, images []string) map[string]eventCounts {
	t.Helper()
	cfg := must.Get(config.Load(path))(t)
	var mu sync.Mutex
	counts := map[string]eventCounts{}
	keyring := must.Get(regcred.New(cfg, regcred.Options{BinDir: dir, Observer: func(e regcred.Event) {
		mu.Lock()
		defer mu.Unlock()
		counts[e.Provider] = counts[e.Provider].addEvent(e)
	}}))(t)
	for _, image := range images {
		keyring.Lookup(t.Context(), regcred.Request{Image: image}) // the observer gets the results
	}
	keyring.Close()
	return counts
}

// addEvent adds an event to the counts. docs/library.md describes which events correspond to the
// kubelet's metrics.
func (c eventCounts) addEvent(e regcred.Event) eventCounts {
	switch e.Kind {
	case regcred.EventExec:
		c.Runs++
		switch e.Stage {
		case plugin.StageStart, plugin.StageExec, plugin.StageTimeout, plugin.StageCanceled:
			c.Errors++
		}
	case regcred.EventFailure:
		c.Failures++
	}
	return c
}
