// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package fleet

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/image"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/upstream/helm"
	"github.com/regcred/regcred/upstream/node"
	"github.com/regcred/regcred/upstream/plugins"
)

// TestFleet runs all tests on one cluster, because starting a cluster takes a while.
func TestFleet(t *testing.T) {
	node.SkipUnlessSupported(t)
	f := startFleet(t)
	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{{"cluster", f.testCluster}, {"privileges", f.testPrivileges}, {"doc", f.testWalkthrough}, {"life", f.testLifecycle}, {"drift", f.testDrift}, {"faults", f.testFaults}} {
		if t.Failed() {
			return // a release left on the nodes would disturb the next part
		}
		t.Run(part.name, part.run)
	}
}

// nodeA and the following constants are the nodes and the registries. The registries of
// applications require the password that is stored on the nodes. The registry of the chart's images
// requires a pull secret.
const (
	nodeA, nodeB = "node-a", "node-b"

	firstHost, laterHost, otherHost = "registry.example", "partner.example", "other.example"
	imagesRepository                          = "images.example"

	password = "/etc/team/password" // file with the password on each node
)

// clusterFleet is a cluster on which the tests install charts.
type clusterFleet struct {
	*node.Cluster
	helm     *helm.Helm
	registry map[string]*node.Registry // registries by host
	images   *node.Registry

	kubeconfig string // path of a cluster administrator's kubeconfig
}

func startFleet(t *testing.T) *clusterFleet {
	t.Helper()
	net := node.NewFakeNetwork(t)
	f := &clusterFleet{registry: map[string]*node.Registry{}}
	for _, host := range []string{firstHost, laterHost, otherHost} {
		f.registry[host] = node.StartRegistry(t, net, host, testregistry.Options{Auth: testregistry.AuthBasic, Users: map[string]string{"ci": canary.PasswordSecret}})
	}
	f.images = node.StartRegistry(t, net, imagesRepository, testregistry.Options{Auth: testregistry.AuthBasic, Users: map[string]string{"cluster": canary.PasswordSecret}})
	f.images.Push(t, "regcred", "v1", releaseImage(t))
	static := filepath.Join(node.BinDir(), plugins.Static)
	f.images.Push(t, "vendor/plugins", "v1", node.ProgramsImage(t, map[string]string{
		"opt/registry-credential-provider": static, "opt/partner-credential-provider": static, "opt/other-credential-provider": static,
	}))
	begin := time.Now()
	machine := func(name string) node.MachineOptions {
		return node.MachineOptions{Name: name, Files: map[string]string{
			"/usr/lib/systemd/system/kubelet.service.d/80-soon.conf": "[Service]\nRestartSec=1s\n",
		}}
	}
	f.Cluster = node.StartCluster(t, node.ClusterOptions{Net: net, Nodes: []node.MachineOptions{machine(nodeA), machine(nodeB)}})
	t.Logf("two nodes are ready after %v", time.Since(begin).Round(time.Millisecond))
	for _, m := range f.Nodes {
		m.WriteFile(t, password, canary.PasswordSecret, 0o600)
	}
	f.addNamespace(t, "try")
	path := must.Get(helm.BuildHelm(t.TempDir()))(t)
	f.kubeconfig = f.WriteKubeconfig(t, "admin", "system:masters")
	f.helm = helm.New(t, path, f.kubeconfig)
	return f
}

// releaseImage returns a release's image with the programs that were built for these tests.
func releaseImage(t *testing.T) v1.Image {
	t.Helper()
	root := must.Get(plugins.RepositoryRoot())(t)
	img := must.Get(image.Build(image.BuildOptions{
		Programs: []string{filepath.Dir(node.RegcredPath()), node.BinDir()}, License: filepath.Join(root, "LICENSE"),
		Platform: v1.Platform{OS: "linux", Architecture: runtime.GOARCH},
		Release:  image.Release{Version: "v1", Created: time.Unix(1, 0)},
	}))(t)
	return img
}

// chartValues returns chart values for this cluster, with a provider for each host.
func chartValues(hosts ...string) map[string]any {
	providers := []any{}
	for _, host := range hosts {
		providers = append(providers, providerValues(host))
	}
	paths := []string{}
	for _, host := range []string{firstHost, laterHost, otherHost} {
		paths = append(paths, "/opt/"+providerForHost(host))
	}
	return map[string]any{
		"mode": "Install",
		"config": map[string]any{
			"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": providers,
		},
		"plugins":          map[string]any{"images": []any{map[string]any{"name": "vendor", "image": imagesRepository + "/vendor/plugins:v1", "paths": paths}}},
		"image":            map[string]any{"repository": imagesRepository + "/regcred", "tag": "v1"},
		"imagePullSecrets": []any{map[string]any{"name": "pull"}},
		"reserve":          []string{laterHost},
	}
}

// providerValues returns the chart's values of a provider for a host. Its plugin uses the node's
// password.
func providerValues(host string) map[string]any {
	return map[string]any{
		"name": providerForHost(host), "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "matchImages": []string{host}, "defaultCacheDuration": "1m",
		"args": []string{"--host=" + host, "--username=ci", "--password-file=" + password, "--cache-duration=0s"},
	}
}

// mergeValues returns values overridden by more.
func mergeValues(values, more map[string]any) map[string]any {
	values = maps.Clone(values)
	maps.Copy(values, more)
	return values
}

// valuesFile writes values to a file and returns its path.
func valuesFile(t *testing.T, values map[string]any) string {
	t.Helper()
	data := must.Get(yaml.Marshal(values))(t)
	path := filepath.Join(t.TempDir(), "values.yaml")
	must.Do(t, os.WriteFile(path, data, 0o600))
	return path
}

// release is an installed release of the chart.
type release struct {
	*clusterFleet
	name, namespace string
}

// installRelease creates a namespace with its pull secret and installs the chart there.
func (f *clusterFleet) installRelease(t *testing.T, namespace, name string, values map[string]any) *release {
	t.Helper()
	f.addNamespace(t, namespace)
	r := &release{f, name, namespace}
	f.helm.Run(t, "install", name, helm.ChartDir(t), "--namespace", namespace, "--values", valuesFile(t, values))
	return r
}

// addNamespace creates a namespace with a pull secret if it does not exist.
func (f *clusterFleet) addNamespace(t *testing.T, name string) {
	t.Helper()
	api := f.Client.CoreV1().Namespaces()
	if _, err := api.Get(t.Context(), name, metav1.GetOptions{}); err == nil {
		return
	}
	must.Get(api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
	f.AddPullSecret(t, name, "pull", imagesRepository, "cluster", canary.PasswordSecret)
}

// upgradeRelease runs "helm upgrade" and returns how long the upgrade and its rollout took.
func (r *release) upgradeRelease(t *testing.T, values map[string]any) time.Duration {
	t.Helper()
	begin := time.Now()
	r.helm.Run(t, "upgrade", r.name, helm.ChartDir(t), "--namespace", r.namespace, "--values", valuesFile(t, values))
	r.waitRollout(t)
	return time.Since(begin)
}

// waitRollout waits until the release is rolled out to every node.
func (r *release) waitRollout(t *testing.T) {
	t.Helper()
	waitRollout(t, r.Cluster, r.getDaemonSet(t))
}

func (r *release) getDaemonSet(t *testing.T) *appsv1.DaemonSet {
	t.Helper()
	return must.Get(r.Client.AppsV1().DaemonSets(r.namespace).Get(t.Context(), r.name, metav1.GetOptions{}))(t)
}

// labelSelector returns the label selector of the release's agent pods.
func (r *release) labelSelector() string {
	return "app.kubernetes.io/name=regcred,app.kubernetes.io/component=agent,app.kubernetes.io/instance=" + r.name
}

// findAgentPod returns the agent pod on a node, ignoring pods that are being deleted.
func (r *release) findAgentPod(ctx context.Context, node string) (*corev1.Pod, error) {
	list, err := r.Client.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{LabelSelector: r.labelSelector(), FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			return &list.Items[i], nil
		}
	}
	return nil, errPodNotFound
}
