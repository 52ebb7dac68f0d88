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

// KubeletOptions are how a kubelet is started. Runtime is required, and
// belongs to this kubelet alone.
type KubeletOptions struct {
	Runtime      *Containerd
	ControlPlane *ControlPlane // nil means none: static pods alone
	Name         string        // of the node; "" means "node"
	Program      string        // path; "" means the kubelet that was built for the run

	ProviderConfig string // path of a file or directory; "" means no plugins
	BinDir         string
	Environ        []string // beside PATH and HOME, an empty directory

	// Config is merged over the KubeletConfiguration, by top-level field.
	Config map[string]any
}

// Kubelet is a running kubelet.
type Kubelet struct {
	Options KubeletOptions

	dir      string
	readOnly string // URL of the port that demands no login
	kube     string // path of the kubeconfig, or ""
	process  *process
}

// StartKubelet starts a kubelet, and with a control plane waits until its node
// is registered.
func StartKubelet(t testing.TB, o KubeletOptions) *Kubelet {
	t.Helper()
	o.Name = cmp.Or(o.Name, "node")
	dir := tempDir(t, "kubelet")
	k := &Kubelet{Options: o, dir: dir, process: newProcess(t, dir, nil, cmp.Or(o.Program, program("kubelet")))}
	if err := os.Mkdir(k.manifests(), 0o755); err != nil {
		t.Fatal(err)
	}
	if o.ControlPlane != nil {
		k.kube = o.ControlPlane.NodeKubeconfig(t, o.Name)
	}
	k.start(t)
	return k
}

// Restart kills the kubelet and starts it with changed options; nil changes
// nothing. Pods go on. The log goes on, too; the metrics begin anew.
func (k *Kubelet) Restart(t testing.TB, change func(*KubeletOptions)) {
	t.Helper()
	k.process.stop()
	if change != nil {
		change(&k.Options)
	}
	k.start(t)
}

func (k *Kubelet) manifests() string { return filepath.Join(k.dir, "manifests") }

func (k *Kubelet) start(t testing.TB) {
	t.Helper()
	k.process.environ = k.Options.Environ
	k.process.start(t, k.args(t)...)
	k.process.waitReady(t, func(ctx context.Context) error {
		_, err := fetch(ctx, http.DefaultClient, k.readOnly+"/pods")
		if err == nil && k.Options.ControlPlane != nil {
			err = k.Options.ControlPlane.registered(ctx, k.Options.Name)
		}
		return err
	})
}

func (k *Kubelet) args(t testing.TB) []string {
	t.Helper()
	o := k.Options
	args := []string{
		// An absolute path: a kubelet finds no mount point of a relative one.
		"--root-dir=" + k.RootDir(), "--cert-dir=" + filepath.Join(k.dir, "pki"),
		"--config=" + k.writeConfig(t), "--hostname-override=" + o.Name, "--node-ip=" + Address,
		// What is in the log of plugins, pulls and events.
		"--v=1", "--vmodule=plugin=5,kuberuntime_image=4,event=3",
	}
	if k.kube != "" {
		args = append(args, "--kubeconfig="+k.kube)
	}
	if o.ProviderConfig != "" {
		args = append(args, "--image-credential-provider-config="+o.ProviderConfig, "--image-credential-provider-bin-dir="+o.BinDir)
	}
	return args
}

// writeConfig writes the KubeletConfiguration. JSON is YAML.
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
		"address":                "127.0.0.1", "port": k.port(t), "readOnlyPort": k.port(t), "healthzPort": 0,
		"staticPodPath": k.manifests(), "containerRuntimeEndpoint": k.Options.Runtime.Endpoint(),
		"registryPullQPS": 0, // by default more than ten pulls at once are put off
		"podLogsDir":      filepath.Join(k.dir, "logs"), "volumePluginDir": filepath.Join(k.dir, "volumeplugins"),
		"localStorageCapacityIsolation": false, "enableControllerAttachDetach": false,
		"makeIPTablesUtilChains": false, "resolvConf": "", "serializeImagePulls": false,
		"syncFrequency": "5s",
		// The machine's disk may be as full as it is.
		"imageGCHighThresholdPercent": 100,
		"evictionHard":                map[string]string{"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
	}
	k.readOnly = fmt.Sprintf("http://127.0.0.1:%d", config["readOnlyPort"])
	return config
}

func (k *Kubelet) port(t testing.TB) uint16 {
	t.Helper()
	addr, err := netip.ParseAddrPort(testenv.FreeAddr(t))
	if err != nil {
		t.Fatal(err)
	}
	return addr.Port()
}

// Log returns the records of the kubelet's log that hold all of these texts. It
// has each run of a plugin ([Kubelet.PluginRuns]), each failure
// ([Kubelet.Failures]), each pull without credentials, and the events ("Event
// occurred").
func (k *Kubelet) Log(t testing.TB, texts ...string) (records []string) {
	t.Helper()
	for _, line := range k.process.grep(t) {
		// What a plugin said stands in lines of its own.
		if len(records) > 0 && (strings.HasPrefix(line, "\t") || strings.HasPrefix(line, " >")) {
			records[len(records)-1] += "\n" + line
		} else {
			records = append(records, line)
		}
	}
	return slices.DeleteFunc(records, func(r string) bool { return !containsAll(r, texts) })
}

// Pods are those that the kubelet runs, with their status.
func (k *Kubelet) Pods(ctx context.Context) ([]corev1.Pod, error) {
	data, err := fetch(ctx, http.DefaultClient, k.readOnly+"/pods")
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	err = json.Unmarshal(data, &list)
	return list.Items, err
}
