// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/regcred/regcred/internal/containerd"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/upstream/node"
	"github.com/regcred/regcred/upstream/plugins"
)

// cacheRepository and cacheOnly are hosts.toml files for Docker Hub with a pull-through cache. With
// cacheOnly the cache is also the server. withCache has no server, so that Docker Hub is the
// fallback.
const (
	cacheHost = "111122223333.dkr.ecr.us-west-2.amazonaws.com"
	cacheURL  = "https://" + cacheHost + "/v2/docker-hub"
	cacheRepository = "[host.\"" + cacheURL + "\"]\noverride_path = true\n"
	cacheOnlyRepository = "server = \"" + cacheURL + "\"\noverride_path = true\n" + cacheRepository
)

// TestMirror pulls Docker Hub images from a pull-through cache in ECR, with the plugin's credential
// for the cache. The runtime must send the credential only to hosts that regcred reports.
func TestMirror(t *testing.T) {
	node.SkipUnlessSupported(t)
	for name, tt := range map[string]struct {
		hosts  string
		repo   string // repository in the cache; the cache has no other images
		cache  []string
		origin []string
		shown  bool // whether the credential is sent to Docker Hub
	}{
		"no fallback":        {cacheOnlyRepository, "docker-hub/team/app", []string{`"" 401`, `"AWS" 200`}, nil, false},
		"fallback, not used": {cacheRepository, "docker-hub/team/app", []string{`"" 401`, `"AWS" 200`}, nil, true},
		"fallback":           {cacheRepository, "other", []string{`"" 401`, `"AWS" 404`}, []string{`"" 401`, `"AWS" 401`}, true},
		"nowhere to fall to": {cacheOnlyRepository, "other", []string{`"" 401`, `"AWS" 404`}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			net, cloud := node.NewFakeNetwork(t), newAWS(t)
			cache := startRegistry(t, net, cacheHost, "AWS")
			origin := node.StartRegistry(t, net, "registry-1.docker.io", testregistry.Options{Auth: testregistry.AuthBasic, Users: map[string]string{"hub": "hub"}})
			cache.PushApp(t, tt.repo, "v1")
			origin.PushApp(t, "team/app", "v1")
			runtime := node.StartContainerdWith(t, net, map[string]string{"docker.io": tt.hosts})
			kubelet := node.StartKubelet(t, node.KubeletOptions{
				Runtime: runtime, BinDir: node.BinDir(),
				ProviderConfig: writeProviders(t, filepath.Join(t.TempDir(), "config.yaml"), "v1", provider{
					name: plugins.ECR, version: "v1", images: []string{"docker.io"}, environ: cloud.Environ(),
					args: []string{"--mirror=docker.io=" + cacheHost + "/docker-hub", "--mirror-origin=none"},
				}),
			})
			pod := node.NewPod("default", "mirrored", "docker.io/team/app:v1")
			pod.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways
			kubelet.AddStaticPod(t, pod)
			if tt.repo == "other" {
				kubelet.WaitStaticPodWaiting(t, pod, "ImagePull")
			} else {
				kubelet.WaitStaticPodRunning(t, pod)
			}
			got, asked := registryResponses(cache.ManifestRequests("docker-hub/team/app")), registryResponses(origin.ManifestRequests("team/app"))
			if diff := cmp.Diff(tt.cache, got); diff != "" {
				t.Errorf("the cache answered (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.origin, asked); diff != "" {
				t.Errorf("Docker Hub answered (-want +got):\n%s", diff)
			}
			t.Logf("answered, by user: the cache %s, Docker Hub %s", fmt.Sprint(got), fmt.Sprint(asked))
			checkOriginCredential(t, runtime, tt.shown)
		})
	}
}

// checkOriginCredential verifies that regcred, which reads the runtime's files, reports whether the runtime
// sends the credential to Docker Hub.
func checkOriginCredential(t *testing.T, runtime *node.Containerd, shown bool) {
	t.Helper()
	read := must.Get(containerd.Read("", runtime.ConfigPath(), containerd.Version{}))(t)
	if why := read.OriginQueryReason("docker.io"); (why != "") != shown {
		t.Errorf("regcred says of Docker Hub %q, want a reason: %v", why, shown)
	}
}
