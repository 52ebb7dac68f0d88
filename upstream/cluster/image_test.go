// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	oci "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"

	"github.com/regcred/regcred/internal/image"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/upstream/node"
	"github.com/regcred/regcred/upstream/plugins"
)

// TestImage verifies that a real containerd pulls regcred's image with its provenance. A real
// kubelet then runs each program in the image without root, capabilities or a writable root file
// system. One of the programs pulls the image itself into a volume.
func TestImage(t *testing.T) {
	node.SkipUnlessSupported(t)
	net := node.NewFakeNetwork(t)
	registry := node.StartRegistry(t, net, "", testregistry.Options{})
	ref := registry.Host + "/team/regcred:v1.2.3"
	digest := pushRegcredImage(t, ref)
	logs := t.TempDir()
	kubelet := node.StartKubelet(t, node.KubeletOptions{Runtime: node.StartContainerd(t, net), Config: map[string]any{"podLogsDir": logs}})

	pod := unprivilegedPod("image", ref)
	addContainer(pod, "version", "", "version")
	addContainer(pod, "pull", "", "pull", "--no-node-config", "--layout", "/data/layout", ref)
	addContainer(pod, "outside", "", "pull", "--no-node-config", "--layout", "/layout", ref)
	programs := []string{plugins.ECR, plugins.GCR, plugins.ACR, plugins.DockerConfig, plugins.Token, plugins.Static}
	for _, name := range programs {
		addContainer(pod, name, "/plugins/"+name, "--version")
	}
	addContainer(pod, plugins.Dispatcher, "/bin/"+plugins.Dispatcher, "--version")
	kubelet.AddStaticPod(t, pod)
	ran := waitPodEnded(t, kubelet, pod)

	checkContainerExit(t, logs, ran, "version", 0, "regcred ")
	checkContainerExit(t, logs, ran, "pull", 0, digest)
	checkContainerExit(t, logs, ran, "outside", 1, "read-only file system")
	for _, name := range append(programs, plugins.Dispatcher) {
		checkContainerExit(t, logs, ran, name, 0, name+" ")
	}
	info, err := os.Stat(filepath.Join(kubelet.RootDir(), "pods", string(ran.UID), "volumes/kubernetes.io~empty-dir", "work", "layout/index.json"))
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t); owner.Uid != 65532 || owner.Gid != 65532 {
		t.Errorf("what it writes belongs to %d:%d, want 65532:65532", owner.Uid, owner.Gid)
	}
}

// pushRegcredImage builds regcred's image from the programs under test and pushes it. It returns the digest
// for this machine's platform.
func pushRegcredImage(t *testing.T, to string) (digest string) {
	t.Helper()
	release := image.Release{Version: "v1.2.3", Created: time.Unix(1_000_000_000, 0)}
	ours := must.Get(image.Build(image.BuildOptions{
		Programs: []string{filepath.Dir(node.RegcredPath()), node.BinDir()}, License: "../../LICENSE",
		Platform: oci.Platform{OS: "linux", Architecture: runtime.GOARCH}, Release: release,
	}))(t)
	index := must.Get(image.BuildIndex(release, []image.PlatformImage{{Image: ours, SBOM: []byte("{}")}}))(t)
	tag := must.Get(name.NewTag(to))(t)
	must.Do(t, remote.WriteIndex(tag, index, remote.WithContext(t.Context())))
	h := must.Get(ours.Digest())(t)
	return h.String()
}

// unprivilegedPod returns a pod that runs an image without privileges, as the image's user.
// [addContainer] sets its containers.
func unprivilegedPod(name, ref string) *corev1.Pod {
	pod := node.NewPod("default", name, ref)
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true)}
	pod.Spec.Volumes = []corev1.Volume{{Name: "work", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "work", MountPath: "/data"}}
	pod.Spec.Containers[0].ImagePullPolicy = corev1.PullIfNotPresent
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	return pod
}

// addContainer adds a container to the pod, with the image's own program or another one.
func addContainer(pod *corev1.Pod, name, program string, args ...string) {
	first := &pod.Spec.Containers[0]
	if first.Args != nil {
		pod.Spec.Containers = append(pod.Spec.Containers, *first.DeepCopy())
		first = &pod.Spec.Containers[len(pod.Spec.Containers)-1]
	}
	first.Name, first.Command, first.Args = name, nil, args
	if program != "" {
		first.Command = []string{program}
	}
}

// waitPodEnded waits until all containers of a static pod have exited.
func waitPodEnded(t *testing.T, kubelet *node.Kubelet, pod *corev1.Pod) (ran *corev1.Pod) {
	t.Helper()
	node.Eventually(t, 3*time.Minute, func(ctx context.Context) error {
		pods, err := kubelet.Pods(ctx)
		if err != nil || len(pods) != 1 {
			return fmt.Errorf("%d pods, %v", len(pods), err)
		}
		ran = &pods[0]
		ended := 0
		for _, c := range ran.Status.ContainerStatuses {
			if c.State.Terminated != nil {
				ended++
			} else if c.State.Waiting != nil {
				err = fmt.Errorf("%s waits: %s: %s", c.Name, c.State.Waiting.Reason, c.State.Waiting.Message)
			}
		}
		if ended < len(pod.Spec.Containers) && err == nil {
			err = fmt.Errorf("%d of %d containers have ended", ended, len(pod.Spec.Containers))
		}
		return err
	})
	return ran
}

// checkContainerExit checks that a container exited with code, and that its output contains text.
func checkContainerExit(t *testing.T, logs string, pod *corev1.Pod, name string, code int32, text string) {
	t.Helper()
	dir := fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID)
	said := must.Get(os.ReadFile(filepath.Join(logs, dir, name, "0.log")))(t)
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == name && c.State.Terminated.ExitCode == code && strings.Contains(string(said), text) {
			t.Logf("%s: %s", name, said)
			return
		}
	}
	t.Errorf("%s did not end with %d and %q:\n%s\n%+v", name, code, text, said, pod.Status.ContainerStatuses)
}
