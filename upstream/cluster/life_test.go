// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/upstream/node"
	"github.com/regcred/regcred/upstream/plugins"
)

// lifecycleMachine is a machine on which regcred is installed, changed and uninstalled. The registries for all names require
// a password.
type lifecycleMachine struct {
	m        *node.Machine
	registry map[string]*node.Registry // registries by host
	pods     int
}

// Versions of the two releases.
const v1, v2 = "v1.0.0", "v1.1.0"

// operatorDir and the following constants are directories on the machine.
const (
	operatorDir  = "/root"                   // files that an operator copies to the machine
	passwordPath = operatorDir + "/password" // password file for every registry
	stateDir     = "/var/lib/regcred"
)

// first and the following constants are the registries, each with its own provider.
const (
	firstHost, laterHost, brokenHost, thirdPartyHost = "registry.example", "partner.example", "broken.example", "vendor.example"
)

// startLifecycleMachine starts a machine with two releases of regcred and several provider configurations. o
// may add kubelet flags and third-party files.
func startLifecycleMachine(t *testing.T, o node.MachineOptions) *lifecycleMachine {
	t.Helper()
	o.Net = node.NewFakeNetwork(t)
	l := &lifecycleMachine{registry: map[string]*node.Registry{}}
	for _, host := range []string{firstHost, laterHost, brokenHost, thirdPartyHost} {
		l.registry[host] = node.StartRegistry(t, o.Net, host, testregistry.Options{
			Auth: testregistry.AuthBasic, Users: map[string]string{"ci": canary.PasswordSecret},
		})
	}
	files := map[string]string{
		// Use a shorter time than the package's ten seconds, because some kubelets of these tests
		// exit at once.
		"/usr/lib/systemd/system/kubelet.service.d/80-soon.conf": "[Service]\nRestartSec=1s\n",
		operatorDir + "/first.yaml":                              providersForHosts(t, firstHost),
		operatorDir + "/both.yaml":                               providersForHosts(t, firstHost, laterHost),
		operatorDir + "/broken.yaml":                             providersForHosts(t, firstHost, brokenHost),
		operatorDir + "/wrong.yaml":                              strings.Replace(providersForHosts(t, firstHost), "matchImages", "matchImage", 1),
	}
	maps.Copy(files, o.Files)
	programs := l.installedPrograms(t)
	maps.Copy(programs, o.Programs)
	o.Files, o.Programs = files, programs
	l.m = node.StartMachine(t, o)
	l.m.WriteFile(t, passwordPath, canary.PasswordSecret, 0o600)
	return l
}

// providersForHosts returns a configuration with a provider for each host.
func providersForHosts(t *testing.T, hosts ...string) string {
	t.Helper()
	var list []provider
	for _, host := range hosts {
		list = append(list, provider{name: providerForHost(host), version: "v1", images: []string{host}, args: []string{
			"--host", host, "--username", "ci", "--password-file", passwordPath, "--cache-duration", "0s",
		}})
	}
	data := must.Get(os.ReadFile(writeProviders(t, filepath.Join(t.TempDir(), "providers.yaml"), "v1", list...)))(t)
	return string(data)
}

// providerForHost returns the name of the provider for a host.
func providerForHost(host string) string {
	name, _, _ := strings.Cut(host, ".")
	return name + "-credential-provider"
}

// installedPrograms returns the files of two releases: regcred, its dispatcher and its plugins, by path on
// the machine.
func (l *lifecycleMachine) installedPrograms(t *testing.T) map[string]string {
	t.Helper()
	dir := must.Get(buildReleases())(t)
	list := map[string]string{}
	for _, version := range []string{v1, v2} {
		for _, name := range []string{"regcred", plugins.Dispatcher} {
			list[releasePath(version, name)] = filepath.Join(dir, version, name)
		}
		for host := range l.registry {
			list[releasePath(version, providerForHost(host))] = filepath.Join(dir, version, plugins.Static)
		}
	}
	return list
}

// buildReleases builds both releases, once for all tests.
var buildReleases = sync.OnceValues(func() (dir string, err error) {
	dir = filepath.Join(filepath.Dir(node.BinDir()), "releases")
	for _, version := range []string{v1, v2} {
		for _, name := range []string{"regcred", plugins.Dispatcher, plugins.Static} {
			if _, err := plugins.BuildRelease(filepath.Join(dir, version), name, version); err != nil {
				return "", err
			}
		}
	}
	return dir, nil
})

// releasePath returns the path of a release's program on the machine.
func releasePath(version, name string) string { return "/opt/regcred-" + version + "/" + name }

// runRegcred runs a release's command, which must exit with code, and returns its output.
func (l *lifecycleMachine) runRegcred(t *testing.T, version string, code int, args ...string) string {
	t.Helper()
	said, err := l.m.Command(t.Context(), append([]string{releasePath(version, "regcred")}, args...)...).CombinedOutput()
	canary.AssertAbsent(t, "what regcred says", string(said))
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if got != code {
		t.Fatalf("regcred %q: exit code %d, want %d\n%s", args, got, code, said)
	}
	t.Logf("regcred %q\n%s", args, said)
	return string(said)
}

// install runs "regcred install" with a configuration and its plugins.
func (l *lifecycleMachine) install(t *testing.T, code int, config string, args ...string) string {
	t.Helper()
	args = append([]string{"install", operatorDir + "/" + config, "--bin-dir", filepath.Dir(releasePath(v1, "regcred"))}, args...)
	return l.runRegcred(t, v1, code, args...)
}

// checkPull checks that the kubelet pulls and runs a new image of a host.
func (l *lifecycleMachine) checkPull(t *testing.T, host string) {
	t.Helper()
	l.m.Kubelet.WaitStaticPodRunning(t, l.createPod(t, host))
}

// checkPullRefused checks that the kubelet cannot pull an image of a host, because it has no
// password.
func (l *lifecycleMachine) checkPullRefused(t *testing.T, host string) {
	t.Helper()
	pod := l.createPod(t, host)
	l.m.Kubelet.WaitStaticPodWaiting(t, pod, "401 Unauthorized")
	l.m.Kubelet.RemoveStaticPod(t, pod)
}

// createPod returns a new pod with a new image of a host.
func (l *lifecycleMachine) createPod(t *testing.T, host string) *corev1.Pod {
	t.Helper()
	l.pods++
	name := fmt.Sprintf("app%d", l.pods)
	pod := node.NewPod("default", name, l.registry[host].PushApp(t, "team/"+name, "v1"))
	l.m.Kubelet.AddStaticPod(t, pod)
	return pod
}

// checkNoRestart checks that f does not restart the kubelet, and that containers keep running.
func (l *lifecycleMachine) checkNoRestart(t *testing.T, f func()) {
	t.Helper()
	pid := l.m.MainPID(t, "kubelet")
	l.checkContainersKept(t, f)
	if now := l.m.MainPID(t, "kubelet"); now != pid {
		t.Errorf("the kubelet is process %d, and was %d", now, pid)
	}
}

// checkContainersKept checks that containers keep running during f, even if the kubelet is
// restarted.
func (l *lifecycleMachine) checkContainersKept(t *testing.T, f func()) {
	t.Helper()
	before := l.m.RunningContainerIDs(t)
	f()
	if diff := cmp.Diff(before, l.m.RunningContainerIDs(t)); diff != "" {
		t.Errorf("containers are others (-before +after):\n%s", diff)
	}
}

// checkRestart checks that f restarts the kubelet, which becomes healthy, and that containers keep running.
func (l *lifecycleMachine) checkRestart(t *testing.T, f func()) {
	t.Helper()
	pid := l.m.MainPID(t, "kubelet")
	l.checkContainersKept(t, f)
	if now := l.m.MainPID(t, "kubelet"); now == pid || now == 0 {
		t.Errorf("the kubelet is process %d, and was %d", now, pid)
	}
	if err := l.m.CheckHealthy(t.Context()); err != nil {
		t.Error(err)
	}
}

// checkUnchanged checks that f changes nothing on the machine.
func (l *lifecycleMachine) checkUnchanged(t *testing.T, f func()) {
	t.Helper()
	before := l.describeFiles(t)
	f()
	l.checkTree(t, before)
}

func (l *lifecycleMachine) checkTree(t *testing.T, before map[string]string) {
	t.Helper()
	if diff := cmp.Diff(before, l.describeFiles(t)); diff != "" {
		t.Errorf("the machine has changed (-before +after):\n%s", diff)
	}
}

// describeFiles returns the files of the machine that regcred could change, except the test's pods.
func (l *lifecycleMachine) describeFiles(t *testing.T) map[string]string {
	t.Helper()
	tree := l.m.DescribeFiles(t, "/etc", "/opt", "/root", "/usr/bin/kubelet", "/usr/lib/systemd/system", "/usr/local/bin",
		"/var/lib/kubelet/config.yaml", "/var/lib/kubelet/kubeadm-flags.env", stateDir)
	maps.DeleteFunc(tree, func(path, _ string) bool { return strings.HasPrefix(path, "/etc/kubernetes/manifests/") })
	for _, name := range []string{"applied.json", "originals.json"} { // they record attempts
		delete(tree, stateDir+"/"+name)
	}
	tree["elsewhere"] = l.m.Run(t, "ls", "-A", "/", "/run", "/usr", "/usr/lib", "/var", "/var/lib")
	return tree
}
