// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/upstream/node"
)

// TestKubelet verifies that a real kubelet pulls with the Secrets: a pod that is created together with its
// namespace, a present image after the password was rotated, and a new image.
func TestKubelet(t *testing.T) {
	s := newScene(t)
	net := node.NewFakeNetwork(t)
	registry := node.StartRegistry(t, net, "r.example", testregistry.Options{
		Auth: testregistry.AuthBearer, Users: map[string]string{"ci": canary.PasswordSecret + "shared"},
	})
	kubelet := node.StartKubelet(t, node.KubeletOptions{
		Runtime: node.StartContainerd(t, net), ControlPlane: s.ControlPlane, Config: node.FeaturePullRecords.EnablingConfig(t),
	})
	s.start(t)
	app := registry.PushApp(t, "team/app", "v1")
	run := func(name, image string, policy corev1.PullPolicy) {
		t.Helper()
		pod := node.NewPod("team", name, image)
		pod.Spec.Containers[0].ImagePullPolicy = policy
		pod = s.RunPod(t, kubelet, pod)
		s.WaitRunning(t, pod)
		if len(pod.Spec.ImagePullSecrets) != 1 || pod.Spec.ImagePullSecrets[0].Name != secretName {
			t.Errorf("pod %s has the pull secrets %v", name, pod.Spec.ImagePullSecrets)
		}
	}

	start := time.Now()
	s.addNamespace(t, "team")
	s.AddServiceAccount(t, "team", "default", nil)
	run("first", app, corev1.PullAlways)
	if d := time.Since(start); d > 30*time.Second {
		t.Errorf("running after %v: later than the kubelet's first retry", d)
	}
	before := s.waitPassword(t, "team", secretName, "r.example", canary.PasswordSecret+"shared")

	registry.SetUser("ci", canary.PasswordSecret+"rotated")
	registry.ExpireTokens()
	s.respond(t, "shared", canary.PasswordSecret+"rotated", time.Hour)
	s.write(t, "providers.yaml", strings.Replace(providers(""), "defaultCacheDuration: 1h", "defaultCacheDuration: 1h\n  args: [--rotated]", 1))
	after := s.waitPassword(t, "team", secretName, "r.example", canary.PasswordSecret+"rotated")
	if after.UID != before.UID {
		t.Error("the Secret was recreated")
	}
	requests := len(registry.ManifestRequests("team/app"))
	run("present", app, corev1.PullIfNotPresent)
	if got := len(registry.ManifestRequests("team/app")) - requests; got != 0 {
		t.Errorf("%d requests for an image that is present, want 0", got)
	}
	run("new", registry.PushApp(t, "team/other", "v1"), corev1.PullIfNotPresent)
	canary.AssertAbsent(t, "the kubelet's log", strings.Join(kubelet.LogRecords(t), "\n"))
}
