// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/upstream/node"
	"github.com/regcred/regcred/upstream/plugins"
)

// imagePresentMessage returns the text of a pod's event if the kubelet did not pull the image again.
func imagePresentMessage() string {
	if node.FeaturePullRecords.IsEnabled() {
		return "already present on machine and can be accessed by the pod"
	}
	return "already present on machine\"" // the quotation mark ends the message
}

// prepulledNode is a node on which regcred instead of the kubelet pulls images into the runtime. It
// pulls the images of node.example with the node's plugin, and the image of team.example with a
// pull secret.
type prepulledNode struct {
	kubelet    *node.Kubelet
	node, team *node.Registry
	user       string   // path of the file in which the plugin reads its user name
	images     []string // two images of node.example
	private    string   // the image of team.example
}

func startPrepulledNode(t *testing.T) *prepulledNode {
	t.Helper()
	net, dir := node.NewFakeNetwork(t), t.TempDir()
	p := &prepulledNode{team: startRegistry(t, net, "team.example", "ci"), user: writeFile(t, filepath.Join(dir, "user"), "prepull")}
	p.node = node.StartRegistry(t, net, "node.example", testregistry.Options{
		Auth: testregistry.AuthBearer, Users: map[string]string{"prepull": canary.PasswordSecret, "kubelet": canary.PasswordSecret},
	})
	p.images = []string{p.node.PushApp(t, "team/default", "v1"), p.node.PushApp(t, "team/always", "v1")}
	p.private = p.team.PushApp(t, "team/private", "v1")
	password := writeFile(t, filepath.Join(dir, "password"), canary.PasswordSecret)
	p.kubelet = node.StartKubelet(t, node.KubeletOptions{
		Runtime: node.StartContainerd(t, net), BinDir: node.BinDir(),
		ProviderConfig: writeProviders(t, filepath.Join(dir, "config.yaml"), "v1", provider{
			name: plugins.Static, version: "v1", images: []string{"node.example"},
			args: []string{"--host", "node.example", "--username-file", p.user, "--password-file", password},
		}),
	})
	return p
}

// TestPrepull verifies how a kubelet treats images from regcred prepull. Under its default policy
// every pod can use them. Under AlwaysVerify it pulls them again, with the pod's credentials.
func TestPrepull(t *testing.T) {
	node.SkipUnlessSupported(t)
	p := startPrepulledNode(t)
	if !t.Run("refused", p.testRefused) || !t.Run("pull", p.testPull) {
		return
	}
	writeFile(t, p.user, "kubelet") // the user name shows the registry who pulls
	t.Run("default policy", p.testDefaultPolicy)
	t.Run("AlwaysVerify", p.testAlwaysVerify)
}

// writePullSecret writes a docker config file with a credential for team.example.
func (p *prepulledNode) writePullSecret(t *testing.T) (path string) {
	t.Helper()
	return writeFile(t, filepath.Join(t.TempDir(), "config.json"),
		fmt.Sprintf(`{"auths": {"team.example": {"username": "ci", "password": %q}}}`, canary.PasswordSecret))
}

// writeImageList writes a file with a list of images.
func writeImageList(t *testing.T, images ...string) (path string) {
	t.Helper()
	return writeFile(t, filepath.Join(t.TempDir(), "images.txt"), strings.Join(images, "\n")+"\n")
}

// testRefused verifies that regcred prepull rejects a pod's credentials unless --allow-all-pods is
// set.
func (p *prepulledNode) testRefused(t *testing.T) {
	file := writeImageList(t, p.private)
	for _, flags := range [][]string{
		{"--pod", "team/app"}, {"--service-account", "team/app"}, {"--pull-secret", p.writePullSecret(t)},
		{"--service-account-token-file", writeFile(t, filepath.Join(t.TempDir(), "token"), canary.TokenSecret)},
	} {
		startKubeletCommand(t, p.kubelet, append([]string{"prepull", "-f", file}, flags...)...).checkOutput(t, 2,
			"error: "+flags[0]+": an image pulled into the runtime with a pod's credentials could be used by every pod on this node",
			"use --allow-all-pods")
	}
	if got := p.team.ManifestRequests("team/private"); len(got) > 0 {
		t.Errorf("the registry was called nevertheless: %q", registryResponses(got))
	}
}

func (p *prepulledNode) testPull(t *testing.T) {
	startKubeletCommand(t, p.kubelet, "prepull", "-f", writeImageList(t, p.images...)).checkOutput(t, 0,
		"pulling into containerd ", "ok      "+p.images[0]+": pulled ", "ok      2 images: 2 pulled")
	startKubeletCommand(t, p.kubelet, "prepull", "-f", writeImageList(t, p.private)).checkOutput(t, 1, "error   "+p.private+": anonymous: ", "401 Unauthorized")
	startKubeletCommand(t, p.kubelet, "prepull", "-f", writeImageList(t, p.private), "--pull-secret", p.writePullSecret(t), "--allow-all-pods").checkOutput(t, 0,
		"ok      "+p.private+": pulled ")
	startKubeletCommand(t, p.kubelet, "prepull", "-f", writeImageList(t, append(p.images, p.private)...)).checkOutput(t, 0, "ok      3 images: 3 present")
	for _, image := range append(p.images, p.private) {
		if !p.kubelet.Options.Runtime.HasImage(t, image) {
			t.Errorf("%s is not in the runtime", image)
		}
	}
	if got, want := registryResponses(p.node.ManifestRequests("team/default")), []string{`"" 401`, `"prepull" 200`}; !slices.Equal(got, want) {
		t.Errorf("the registry answered %q, want %q", got, want)
	}
}

// startPod starts a pod that pulls its image only if the image is not present.
func (p *prepulledNode) startPod(t *testing.T, name, image string) *corev1.Pod {
	t.Helper()
	pod := node.NewPod("default", name, image)
	pod.Spec.Containers[0].ImagePullPolicy = corev1.PullIfNotPresent
	p.kubelet.AddStaticPod(t, pod)
	return pod
}

// waitEvent waits for an event of a pod in the kubelet's log.
func (p *prepulledNode) waitEvent(t *testing.T, pod *corev1.Pod, texts ...string) {
	t.Helper()
	object := fmt.Sprintf("object=%q", pod.Namespace+"/"+pod.Name+"-"+p.kubelet.Options.Name)
	node.Eventually(t, 30*time.Second, func(context.Context) error {
		all := p.kubelet.LogRecords(t, "Event occurred", object)
		for _, event := range all {
			if containsAll(event, texts...) {
				return nil
			}
		}
		return fmt.Errorf("pod %s has no event with %q:\n%s", pod.Name, texts, strings.Join(all, "\n"))
	})
}

func (p *prepulledNode) testDefaultPolicy(t *testing.T) {
	p.node.ResetLog()
	p.team.ResetLog()
	ours, private := p.startPod(t, "default", p.images[0]), p.startPod(t, "default-private", p.private)
	for _, pod := range []*corev1.Pod{ours, private} {
		p.kubelet.WaitStaticPodRunning(t, pod)
		p.waitEvent(t, pod, "Pulled", imagePresentMessage())
	}
	if got := append(p.node.Requests(), p.team.Requests()...); len(got) > 0 {
		t.Errorf("the registries were called: %q", registryResponses(got))
	}
	want := map[string]node.PluginCounts{}
	if !node.FeatureChecksImageFirst.IsEnabled() {
		want[plugins.Static] = node.PluginCounts{Runs: 1} // such a kubelet runs the plugin even if the image is present
	}
	if diff := cmp.Diff(want, p.kubelet.PluginCounts(t)); diff != "" {
		t.Errorf("the kubelet's plugin runs (-want +got):\n%s", diff)
	}
}

func (p *prepulledNode) testAlwaysVerify(t *testing.T) {
	settings := node.FeaturePullRecords.EnablingConfig(t)
	p.kubelet.Restart(t, func(o *node.KubeletOptions) {
		o.Config = map[string]any{"imagePullCredentialsVerificationPolicy": "AlwaysVerify"}
		maps.Copy(o.Config, settings)
	})
	p.node.ResetLog()
	p.team.ResetLog()
	ours, private := p.startPod(t, "always", p.images[1]), p.startPod(t, "always-private", p.private)
	p.kubelet.WaitStaticPodRunning(t, ours)
	p.waitEvent(t, ours, "Pulled", "Successfully pulled image")
	t.Log(p.kubelet.WaitStaticPodWaiting(t, private, "401 Unauthorized"))
	if got, want := registryResponses(p.node.ManifestRequests("team/always")), []string{`"" 401`, `"kubelet" 200`}; !slices.Equal(got, want) {
		t.Errorf("the registry answered %q, want %q", got, want)
	}
	if got, want := registryResponses(p.team.ManifestRequests("team/private")), []string{`"" 401`}; !slices.Equal(got, want) {
		t.Errorf("the registry of the pull secret answered %q, want %q", got, want)
	}
	if diff := cmp.Diff(map[string]node.PluginCounts{plugins.Static: {Runs: 1}}, p.kubelet.PluginCounts(t)); diff != "" {
		t.Errorf("the kubelet's plugin runs (-want +got):\n%s", diff)
	}
}

// prepullBenchmark is a runtime with images to pull, 8 at a time.
type prepullBenchmark struct {
	runtime  *node.Containerd
	registry *node.Registry
	images   []string
	args     []string // arguments of regcred
	runs     string   // path of the file with a line for each run of the plugin
}

const maxConcurrentPulls = 8

func startPrepullBenchmark(t *testing.T, images int) *prepullBenchmark {
	t.Helper()
	net, dir := node.NewFakeNetwork(t), t.TempDir()
	registry := startRegistry(t, net, "", "ci")
	s := &prepullBenchmark{runtime: node.StartContainerd(t, net), registry: registry, runs: filepath.Join(dir, "runs")}
	for i := range images {
		repo := fmt.Sprintf("team/app-%d", i)
		must.Get(registry.Server.Push(repo, "v1", testregistry.Image{LayerSize: 512 << 10, Seed: int64(i)}))(t)
		s.images = append(s.images, registry.Host+"/"+repo+":v1")
	}
	password := writeFile(t, filepath.Join(dir, "password"), canary.PasswordSecret)
	writeFile(t, filepath.Join(dir, "bin", "counted"),
		fmt.Sprintf("#!/bin/sh\necho run >>%s\nexec %s \"$@\"\n", s.runs, filepath.Join(node.BinDir(), plugins.Static)))
	config := writeProviders(t, filepath.Join(dir, "config.yaml"), "v1", provider{
		name: "counted", version: "v1", images: []string{registry.Host},
		args: []string{"--host", registry.Host, "--username", "ci", "--password-file", password},
	})
	s.args = []string{
		"prepull", "--config", config, "--bin-dir", filepath.Join(dir, "bin"), "--no-node-config", "--runtime-endpoint", s.runtime.Endpoint(),
		"--parallel", fmt.Sprint(maxConcurrentPulls), "-f", writeImageList(t, s.images...), "-o", "json",
	}
	return s
}

// TestSpeedPrepull compares regcred prepull with the same pulls over CRI. The time of regcred
// prepull includes its process and the plugin. The pulls over CRI use given credentials.
func TestSpeedPrepull(t *testing.T) {
	node.SkipUnlessSupported(t)
	rounds, images := 1, 10
	if *runSpeedTests {
		rounds, images = 7, 50
	}
	s := startPrepullBenchmark(t, images)
	ways := []func(*testing.T){s.measureRegcred, s.measureManually}
	times := make([][]time.Duration, len(ways))
	for round := range rounds {
		for i := range ways {
			way := (i + round) % len(ways) // alternate which way is first
			began := time.Now()
			ways[way](t)
			times[way] = append(times[way], time.Since(began))
			s.checkDownloads(t)
			s.removeImages(t)
		}
	}
	runs, err := os.ReadFile(s.runs)
	if got := strings.Count(string(runs), "run"); err != nil || got != rounds {
		t.Errorf("the plugin has run %d times in %d rounds, want one run for all images (%v)", got, rounds, err)
	}
	regcred, hand := median(times[0]), median(times[1])
	t.Logf("%d images, %d at a time, median of %d rounds: regcred prepull %v, CRI calls with credentials given by hand %v, ratio %.3f; "+
		"the fastest: %v, %v, %.3f", images, maxConcurrentPulls, rounds, regcred.Round(time.Millisecond), hand.Round(time.Millisecond), ratio(regcred, hand),
		times[0][0].Round(time.Millisecond), times[1][0].Round(time.Millisecond), ratio(times[0][0], times[1][0]))
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

func (s *prepullBenchmark) measureRegcred(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), node.RegcredPath(), s.args...).Output()
	var report struct{ Counts map[string]int }
	if err := errors.Join(err, json.Unmarshal(out, &report)); err != nil {
		t.Fatalf("regcred prepull: %v\n%s", err, stderrOf(err))
	}
	if diff := cmp.Diff(map[string]int{"pulled": len(s.images)}, report.Counts); diff != "" {
		t.Errorf("regcred prepull (-want +got):\n%s", diff)
	}
}

func (s *prepullBenchmark) measureManually(t *testing.T) {
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(maxConcurrentPulls)
	for _, image := range s.images {
		g.Go(func() error {
			_, err := s.runtime.PullImage(ctx, &runtimeapi.PullImageRequest{
				Image: &runtimeapi.ImageSpec{Image: image}, Auth: &runtimeapi.AuthConfig{Username: "ci", Password: canary.PasswordSecret},
			})
			return err
		})
	}
	must.Do(t, g.Wait())
}

// checkDownloads checks that the runtime downloaded a configuration and two layers of each image
// from the registry, and did not use its own store.
func (s *prepullBenchmark) checkDownloads(t *testing.T) {
	t.Helper()
	blobs := 0
	for _, r := range s.registry.Requests() {
		if r.Method == http.MethodGet && r.Status == http.StatusOK && strings.Contains(r.Path, "/blobs/") {
			blobs++
		}
	}
	if want := 3 * len(s.images); blobs != want {
		t.Errorf("%d blobs were downloaded, want %d", blobs, want)
	}
	s.registry.ResetLog()
}

// removeImages removes the images, all of which must exist.
func (s *prepullBenchmark) removeImages(t *testing.T) {
	t.Helper()
	for _, image := range s.images {
		if !s.runtime.HasImage(t, image) {
			t.Errorf("%s was not pulled", image)
		}
		must.Get(s.runtime.RemoveImage(t.Context(), &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: image}}))(t)
		if s.runtime.HasImage(t, image) {
			t.Fatalf("%s is still there", image)
		}
	}
}
