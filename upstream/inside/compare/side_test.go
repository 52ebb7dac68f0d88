// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package compare

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/upstream/node"
)

// The names of the two kubelets, which are also the names of their nodes.
const (
	unmodifiedKubelet = "kubelet"
	embeddedKubelet   = "inside"
)

// forEachKubelet calls run for both kubelets as subtests, optionally in parallel, and returns the results by
// the kubelet's name.
func forEachKubelet[T any](t *testing.T, parallel bool, run func(t *testing.T, s kubeletVariant) T) (of map[string]T) {
	t.Helper()
	results := [2]T{}
	t.Run("on", func(t *testing.T) {
		for i, s := range []kubeletVariant{{name: unmodifiedKubelet}, {name: embeddedKubelet, program: os.Getenv(insideKubeletEnv)}} {
			t.Run(s.name, func(t *testing.T) {
				if parallel {
					t.Parallel()
				}
				results[i] = run(t, s)
			})
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	return map[string]T{unmodifiedKubelet: results[0], embeddedKubelet: results[1]}
}

// alternateKubelets calls run repeatedly for each kubelet. It alternates between them so that other load
// affects both equally.
func alternateKubelets[T any](t *testing.T, run func(t *testing.T, s kubeletVariant) T) (of map[string][]T) {
	t.Helper()
	of = map[string][]T{}
	for range *benchmarkRounds {
		for name, result := range forEachKubelet(t, false, run) {
			of[name] = append(of[name], result)
		}
	}
	return of
}

// kubeletVariant is the unmodified kubelet or the kubelet with regcred embedded.
type kubeletVariant struct {
	name    string
	program string // path of the kubelet; "" means the unmodified one
}

// testUser is the name of a user who may pull from all registries.
const testUser = "ci"

// kubeletNode is a node with one of the kubelets. Its runtime has no images.
type kubeletNode struct {
	kubeletVariant
	control  *node.ControlPlane
	registry map[string]*node.Registry // registries by host
	kubelet  *node.Kubelet
	dir      string // directory with the plugins, their responses and the times of their runs
}

// startNode starts a node whose kubelet has these providers. It also starts a registry for each
// provider's host and for each of hosts.
func (s kubeletVariant) startNode(t *testing.T, providers []provider, hosts ...string) *kubeletNode {
	t.Helper()
	net := node.NewFakeNetwork(t)
	c := &kubeletNode{kubeletVariant: s, control: node.StartControlPlane(t), registry: map[string]*node.Registry{}, dir: t.TempDir()}
	c.control.AddNamespace(t, "team")
	for _, p := range providers {
		hosts = append(hosts, p.host)
	}
	for _, host := range hosts {
		if c.registry[host] == nil {
			c.registry[host] = node.StartRegistry(t, net, host, testregistry.Options{
				Auth: testregistry.AuthBearer, Users: map[string]string{testUser: canary.PasswordSecret},
			})
		}
	}
	for _, p := range providers {
		p.writePlugin(t, c.dir)
	}
	c.kubelet = node.StartKubelet(t, node.KubeletOptions{
		Name: s.name, Program: s.program, Runtime: node.StartContainerd(t, net), ControlPlane: c.control,
		ProviderConfig: c.writeProviders(t, providers), BinDir: filepath.Join(c.dir, "bin"),
		Config: map[string]any{"syncFrequency": "1m"}, // the default; a waiting pod's credentials are looked up at this interval
	})
	return c
}

// writeProviders replaces the kubelet's configuration atomically.
func (c *kubeletNode) writeProviders(t *testing.T, providers []provider) (path string) {
	t.Helper()
	path = filepath.Join(c.dir, "config.json")
	must.Do(t, os.Rename(writeFile(t, path+".new", configText(t, providers)), path))
	return path
}

// residentMemory returns the kubelet's peak resident memory in bytes (VmHWM).
func (c *kubeletNode) residentMemory(t *testing.T) (n int64) {
	t.Helper()
	status := must.Get(os.ReadFile(filepath.Join(c.procDir(t), "status")))(t)
	_, most, _ := strings.Cut(string(status), "\nVmHWM:")
	if _, err := fmt.Sscan(most, &n); err != nil {
		t.Fatalf("VmHWM: %v", err)
	}
	return n << 10
}

// cpuTime returns the kubelet's CPU time, without its plugins.
func (c *kubeletNode) cpuTime(t *testing.T) time.Duration {
	t.Helper()
	stat := must.Get(os.ReadFile(filepath.Join(c.procDir(t), "stat")))(t)
	// proc(5): the process's name, which may contain spaces, is followed by eleven fields and then
	// by these two, in hundredths of a second.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		t.Fatalf("stat: %q", stat)
	}
	var sum time.Duration
	for _, f := range fields[11:13] {
		n := must.Get(strconv.Atoi(f))(t)
		sum += time.Duration(n) * 10 * time.Millisecond
	}
	return sum
}

// programSize returns the size of the kubelet's executable.
func (c *kubeletNode) programSize(t *testing.T) int64 {
	t.Helper()
	info := must.Get(os.Stat(filepath.Join(c.procDir(t), "exe")))(t)
	return info.Size()
}

// procDir returns the kubelet's directory in /proc.
func (c *kubeletNode) procDir(t *testing.T) (dir string) {
	t.Helper()
	found := must.Get(filepath.Glob("/proc/[0-9]*/cmdline"))(t)
	for _, path := range found {
		args, _ := os.ReadFile(path) // the process may have ended
		if bytes.Contains(args, []byte("\x00--root-dir="+c.kubelet.RootDir()+"\x00")) {
			return filepath.Dir(path)
		}
	}
	t.Fatal("the kubelet does not run")
	return ""
}

// writeFile writes an executable file, because it may be a program, and returns its path.
func writeFile(t *testing.T, path, content string) string {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, []byte(content), 0o700))
	return path
}
