// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/regcred/regcred/internal/testenv"
)

// KubeletOptions configures a kubelet. Runtime is required. Two kubelets cannot share a runtime.
type KubeletOptions struct {
	Runtime      *Containerd
	ControlPlane *ControlPlane // nil means standalone: only static pods
	Name         string        // name of the node; "" means "node"
	Program      string        // path of the executable; "" means the kubelet built for the run

	ProviderConfig string // path of a file or directory; "" means no plugins
	BinDir         string
	Environ        []string // variables in addition to PATH and HOME; HOME is an empty directory

	// Config overrides top-level fields of the KubeletConfiguration.
	Config map[string]any
}

// Kubelet is a running kubelet.
type Kubelet struct {
	Options KubeletOptions

	dir         string
	readOnlyURL string // URL of the read-only port
	kubeconfig  string // path of the kubeconfig, or ""
	process     *testProcess
}

// StartKubelet starts a kubelet and, if there is a control plane, waits until its node is
// registered.
func StartKubelet(t testing.TB, o KubeletOptions) *Kubelet {
	t.Helper()
	o.Name = cmp.Or(o.Name, "node")
	dir := tempDir(t, "kubelet")
	k := &Kubelet{Options: o, dir: dir, process: newProcess(t, dir, nil, cmp.Or(o.Program, programPath("kubelet")))}
	if err := os.Mkdir(k.manifestDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	if o.ControlPlane != nil {
		k.kubeconfig = o.ControlPlane.WriteNodeKubeconfig(t, o.Name)
	}
	k.start(t)
	return k
}

// Restart kills the kubelet and starts it again with the options as modified by change, which may
// be nil. Pods keep running. The log is appended to the earlier log, but the metrics are reset.
func (k *Kubelet) Restart(t testing.TB, change func(*KubeletOptions)) {
	t.Helper()
	k.process.stop()
	if change != nil {
		change(&k.Options)
	}
	k.start(t)
}

func (k *Kubelet) manifestDir() string { return filepath.Join(k.dir, "manifests") }

func (k *Kubelet) start(t testing.TB) {
	t.Helper()
	k.process.environ = k.Options.Environ
	k.process.start(t, k.args(t)...)
	k.process.waitReady(t, func(ctx context.Context) error {
		_, err := httpGet(ctx, http.DefaultClient, k.readOnlyURL+"/pods")
		if err == nil && k.Options.ControlPlane != nil {
			err = k.Options.ControlPlane.checkRegistered(ctx, k.Options.Name)
		}
		return err
	})
}

func (k *Kubelet) args(t testing.TB) []string {
	t.Helper()
	o := k.Options
	args := []string{
		// kubelet: a relative --root-dir breaks its lookup of mount points.
		"--root-dir=" + k.RootDir(), "--cert-dir=" + filepath.Join(k.dir, "pki"),
		"--config=" + k.writeConfig(t), "--hostname-override=" + o.Name, "--node-ip=" + NodeAddress,
		// Log plugin runs, pulls and events; see LogRecords.
		"--v=1", "--vmodule=plugin=5,kuberuntime_image=4,event=3",
	}
	if k.kubeconfig != "" {
		args = append(args, "--kubeconfig="+k.kubeconfig)
	}
	if o.ProviderConfig != "" {
		args = append(args, "--image-credential-provider-config="+o.ProviderConfig, "--image-credential-provider-bin-dir="+o.BinDir)
	}
	return args
}

// writeConfig writes the KubeletConfiguration as JSON, which is valid YAML.
func (k *Kubelet) writeConfig(t testing.TB) (path string) {
	t.Helper()
	config := k.config(t)
	maps.Copy(config, k.Options.Config)
	data, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, string(data), k.dir, "kubelet.json")
}

func (k *Kubelet) config(t testing.TB) map[string]any {
	t.Helper()
	off := map[string]any{"enabled": false}
	config := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"failCgroupV1": false, "failSwapOn": false, "cgroupDriver": "cgroupfs", "cgroupsPerQOS": false,
		"enforceNodeAllocatable": []string{},
		"authentication":         map[string]any{"anonymous": map[string]any{"enabled": true}, "webhook": off},
		"authorization":          map[string]any{"mode": "AlwaysAllow"},
		"address":                "127.0.0.1", "port": k.findPort(t), "readOnlyPort": k.findPort(t), "healthzPort": 0,
		"staticPodPath": k.manifestDir(), "containerRuntimeEndpoint": k.Options.Runtime.Endpoint(),
		"registryPullQPS": 0, // the default delays pulls beyond a burst of ten
		"podLogsDir":      filepath.Join(k.dir, "logs"), "volumePluginDir": filepath.Join(k.dir, "volumeplugins"),
		"localStorageCapacityIsolation": false, "enableControllerAttachDetach": false,
		"makeIPTablesUtilChains": false, "resolvConf": "", "serializeImagePulls": false,
		"syncFrequency": "5s",
		// Ignore how full the host's disk is.
		"imageGCHighThresholdPercent": 100,
		"evictionHard":                map[string]string{"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
	}
	k.readOnlyURL = fmt.Sprintf("http://127.0.0.1:%d", config["readOnlyPort"])
	return config
}

func (k *Kubelet) findPort(t testing.TB) uint16 {
	t.Helper()
	addr, err := netip.ParseAddrPort(testenv.FreeAddr(t))
	if err != nil {
		t.Fatal(err)
	}
	return addr.Port()
}

// LogRecords returns the kubelet's log records that contain all texts. The log includes plugin
// runs ([Kubelet.PluginRuns]), failures ([Kubelet.Failures]), pulls without credentials,
// and events ("Event occurred").
func (k *Kubelet) LogRecords(t testing.TB, texts ...string) (records []string) {
	t.Helper()
	for _, line := range k.process.matchingLogLines(t) {
		// kubelet: klog puts a multi-line error, such as a plugin's stderr, on separate lines.
		if len(records) > 0 && (strings.HasPrefix(line, "\t") || strings.HasPrefix(line, " >")) {
			records[len(records)-1] += "\n" + line
		} else {
			records = append(records, line)
		}
	}
	return slices.DeleteFunc(records, func(r string) bool { return !containsAll(r, texts) })
}

// Pods returns the kubelet's pods and their status.
func (k *Kubelet) Pods(ctx context.Context) ([]corev1.Pod, error) {
	data, err := httpGet(ctx, http.DefaultClient, k.readOnlyURL+"/pods")
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	err = json.Unmarshal(data, &list)
	return list.Items, err
}
