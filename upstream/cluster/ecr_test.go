// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/upstream/node"
	"github.com/regcred/regcred/upstream/plugins"
)

// ecrRun is the observable behavior of an ECR plugin run by a kubelet.
type ecrRun struct {
	Cloud   []string // requests to the cloud
	Granted []string // requests to the private registry: user name and status
	Public  []string // requests to the public registry: user name and status
	Refused []string // requests to the registry for which the cloud refuses credentials: user name and status
	Counts  node.PluginCounts
	Failed  int // failures of the plugin in the kubelet's log
}

// TestUpstreamECR runs AWS's plugin and regcred's plugin in one kubelet. Each pulls the same images
// from its own account, with its own cloud. The requests and the kubelet's results must be the
// same.
func TestUpstreamECR(t *testing.T) {
	node.SkipUnlessSupported(t)
	net := node.NewFakeNetwork(t)
	public := startRegistry(t, net, "public.ecr.aws", "AWS")
	ours := newECRAccount(t, net, plugins.ECR, "111122223333", public)
	theirs := newECRAccount(t, net, node.UpstreamECR, "444455556666", public)
	kubelet := node.StartKubelet(t, node.KubeletOptions{
		Runtime: node.StartContainerd(t, net), BinDir: node.BinDir(),
		ProviderConfig: writeProviders(t, filepath.Join(t.TempDir(), "config.yaml"), "v1", ours.withVersion("v1"), theirs.withVersion("v1")),
	})
	kubelet.AddStaticPod(t, ours.pod)
	kubelet.AddStaticPod(t, theirs.pod)
	kubelet.WaitStaticPodRunning(t, ours.pod)
	kubelet.WaitStaticPodRunning(t, theirs.pod)

	got, want := ours.takeRun(t, kubelet), theirs.takeRun(t, kubelet)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-upstream +regcred):\n%s", diff)
	}
	// The results must not be equal only because everything fails.
	if want := (node.PluginCounts{Runs: 3, Errors: 1}); got.Counts != want || got.Failed != 1 {
		t.Errorf("the kubelet counts %+v, want %+v, and logs %d failures, want 1", got.Counts, want, got.Failed)
	}
	if len(got.Cloud) < 3 {
		t.Errorf("the cloud was called: %q", got.Cloud)
	}
	if strays := net.UnknownHosts(); len(strays) > 0 {
		t.Errorf("another host was called: %q", strays)
	}
}

// ecrAccount is an AWS account whose registry a plugin serves.
type ecrAccount struct {
	providerSite
	cloud   *testcloud.AWS
	private *node.Registry
	refused *node.Registry
	public  *node.Registry
	pod     *corev1.Pod
}

// newECRAccount creates an account and a pod with four images. Two are in the account's registry,
// for which one run of the plugin is enough. One is in the public registry. One is in another
// region's registry, which needs no credentials and for which the cloud rejects the request.
func newECRAccount(t *testing.T, net *testcloud.FakeNetwork, plugin, account string, public *node.Registry) *ecrAccount {
	t.Helper()
	cloud := newAWS(t)
	cloud.Inject(testcloud.Fault{
		Match:  func(r testcloud.Request) bool { return signingHost(r) == "eu-west-1 ecr" },
		Status: 400, Body: testcloud.AWSErrorJSON("AccessDeniedException", "a message"), Times: -1,
	})
	a := &ecrAccount{providerSite: newECRSite(t, net, plugin, cloud, account), cloud: cloud, public: public}
	a.private = a.registry.(*node.Registry)
	a.refused = node.StartRegistry(t, net, account+".dkr.ecr.eu-west-1.amazonaws.com", testregistry.Options{})
	a.images = append(a.images, a.refused.Host, "public.ecr.aws/"+account)
	a.pod = node.NewPod("default", "account-"+account, a.private.PushApp(t, "team/app", "v1"))
	for i, image := range []string{
		a.private.PushApp(t, "team/second", "v1"), public.PushApp(t, account+"/app", "v1"), a.refused.PushApp(t, "team/app", "v1"),
	} {
		a.pod.Spec.Containers = append(a.pod.Spec.Containers, corev1.Container{
			Name: fmt.Sprintf("more%d", i), Image: image, ImagePullPolicy: corev1.PullAlways,
		})
	}
	return a
}

// signingHost returns the region and the service of a request's signature.
func signingHost(r testcloud.Request) string {
	s, _ := testcloud.ParseAWSSignature(r.Header)
	return s.Region + " " + s.Service
}

func (a *ecrAccount) takeRun(t *testing.T, k *node.Kubelet) ecrRun {
	t.Helper()
	run := ecrRun{
		Granted: append(registryResponses(a.private.ManifestRequests("team/app")), registryResponses(a.private.ManifestRequests("team/second"))...),
		Public:  registryResponses(a.public.ManifestRequests(strings.TrimPrefix(a.images[2], "public.ecr.aws/") + "/app")),
		Refused: registryResponses(a.refused.ManifestRequests("team/app")),
		Counts:  k.PluginCounts(t)[a.name],
		Failed:  len(k.Failures(t, node.FailureFilter{Provider: a.name})),
	}
	for _, r := range a.cloud.Requests() {
		run.Cloud = append(run.Cloud, fmt.Sprintf("%s %s %s %s", r.Method, r.Path, r.Header.Get("X-Amz-Target"), signingHost(r)))
	}
	return run
}
