// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/kubeconfig"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/kube"
	"github.com/regcred/regcred/upstream/node"
)

// regcredOnNode looks up credentials with regcred. It uses a kubelet's configuration, plugin directory
// and identity.
type regcredOnNode struct {
	kubelet    *node.Kubelet
	kubeconfig string
}

func newRegcredOnNode(t *testing.T, k *node.Kubelet) regcredOnNode {
	t.Helper()
	return regcredOnNode{k, k.Options.ControlPlane.WriteNodeKubeconfig(t, k.Options.Name)}
}

// lookupResult is the result of a lookup with regcred's keyring.
type lookupResult struct {
	logins   []basicLogin
	ran      []string // providers whose plugins ran, in the order of the attempts
	attempts []regcred.Attempt
}

// lookUpLogins looks up an image for a pod with a new keyring.
func (n regcredOnNode) lookUpLogins(t *testing.T, namespace, pod, image string) lookupResult {
	t.Helper()
	client := n.newClient(t)
	keyring, ran := n.newKeyring(t, client)
	return lookUpCredential(t, client, keyring, ran, namespace, pod, image)
}

// newClient returns an API client with the node's identity.
func (n regcredOnNode) newClient(t *testing.T) *kube.Client {
	t.Helper()
	cfg, _, err := kubeconfig.Load(kubeconfig.Options{Kubeconfig: n.kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	return must.Get(kube.New(cfg, kube.Options{}))(t)
}

// pluginRunCounter records the plugins that a keyring has run.
type pluginRunCounter struct {
	mu     sync.Mutex
	events map[regcred.EventKind]map[string]int // numbers of events by kind and provider
}

func (r *pluginRunCounter) observeEvent(e regcred.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.events[e.Kind] == nil {
		r.events[e.Kind] = map[string]int{}
	}
	r.events[e.Kind][e.Provider]++
}

func (r *pluginRunCounter) count(kind regcred.EventKind, provider string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events[kind][provider]
}

// newKeyring returns a keyring with the kubelet's configuration.
func (n regcredOnNode) newKeyring(t *testing.T, client *kube.Client) (*regcred.Keyring, *pluginRunCounter) {
	t.Helper()
	cfg := must.Get(config.Load(n.kubelet.Options.ProviderConfig))(t)
	if !node.FeatureCacheType.IsEnabled() {
		for i := range cfg.Providers {
			if tokens := cfg.Providers[i].TokenAttributes; tokens != nil {
				tokens.CacheType = config.CachePerToken // the only cacheType that these kubelets accept
			}
		}
	}
	r := &pluginRunCounter{events: map[regcred.EventKind]map[string]int{}}
	k := must.Get(regcred.New(cfg, regcred.Options{
		BinDir:          n.kubelet.Options.BinDir,
		Sources:         []regcred.Source{regcred.NodeDockerConfig(regcred.NodePaths{RootDir: n.kubelet.RootDir()})},
		ServiceAccounts: client,
		Observer:        r.observeEvent,
	}))(t)
	t.Cleanup(func() { k.Close() })
	return k, r
}

func lookUpCredential(t *testing.T, client *kube.Client, k *regcred.Keyring, ran *pluginRunCounter, namespace, name, image string) (f lookupResult) {
	t.Helper()
	pod := must.Get(client.Pod(t.Context(), namespace, name))(t)
	secrets := must.Get(client.PullSecrets(t.Context(), namespace, pod.PullSecrets))(t)
	res, err := k.Lookup(t.Context(), regcred.Request{Image: image, Pod: &pod.Pod, PullSecrets: secrets})
	if failed := new(*regcred.LookupError); err != nil && !errors.As(err, failed) {
		t.Fatal(err)
	}
	f.attempts = res.Attempts
	for _, c := range res.Credentials {
		f.logins = append(f.logins, newLogin(c.Username, c.Password.Reveal()))
	}
	for _, a := range res.Attempts {
		if ran.count(regcred.EventExec, a.Provider) > 0 {
			f.ran = append(f.ran, a.Provider)
		}
	}
	return f
}

// runCommand runs regcred as on the node, and returns its standard output, standard error
// and exit code. Standard output may contain a password.
func (n regcredOnNode) runCommand(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	o := n.kubelet.Options
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	args = append(args, "--config", o.ProviderConfig, "--bin-dir", o.BinDir, "--root-dir", n.kubelet.RootDir())
	if !node.FeatureCacheType.IsEnabled() { // unlike this kubelet, the newest one rejects the configuration
		args = append(args, "--as-kubelet="+kubeletPID(t, n.kubelet))
	}
	cmd := exec.CommandContext(ctx, node.RegcredPath(), args...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir}
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if exit := new(*exec.ExitError); err != nil && !errors.As(err, exit) {
		t.Fatal(err)
	}
	return out.String(), said.String(), cmd.ProcessState.ExitCode()
}

// loginsFromCommand returns the credentials in the output of "get" or "explain" for a pod. explain prints no
// passwords.
func (n regcredOnNode) loginsFromCommand(t *testing.T, command, namespace, pod, image string) (list []basicLogin) {
	t.Helper()
	stdout, stderr, code := n.runCommand(t, command, "--kubeconfig", n.kubeconfig, "--pod", namespace+"/"+pod, "-o", "json", image)
	var answer struct {
		Credentials []struct{ Username, Password string }
	}
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil {
		t.Fatalf("regcred %s exits with %d and not with JSON: %s", command, code, stderr)
	}
	for _, c := range answer.Credentials {
		l := newLogin(c.Username, c.Password)
		if command == "explain" {
			l.Secret = ""
		}
		list = append(list, l)
	}
	if (code == 0) != (len(list) > 0) {
		t.Errorf("regcred %s exits with %d, with %d credentials", command, code, len(list))
	}
	return list
}

// waitPluginsRun returns the plugins that the kubelet ran for the first pull of an
// image, in the order of its log.
func waitPluginsRun(t *testing.T, k *node.Kubelet, image string) (names []string) {
	t.Helper()
	repo, _, _ := strings.Cut(image, ":")
	for _, run := range k.PluginRuns(t) {
		if run.Image != repo {
			continue
		}
		if slices.Contains(names, run.Plugin) {
			break // the next pull begins
		}
		names = append(names, run.Plugin)
	}
	return names
}

// providerFailure returns the first failure of a provider in the kubelet's log, or "".
func providerFailure(t *testing.T, k *node.Kubelet, f node.FailureFilter) string {
	t.Helper()
	if why := k.Failures(t, f); len(why) > 0 {
		return why[0]
	}
	return ""
}

// checkSameAsKubelet checks that regcred's keyring and commands return the same credentials for a pod as
// the kubelet sent to the registry, in the same order. works is the index of the credential that
// the registry accepts, after which the kubelet stops, or -1.
func (n regcredOnNode) checkSameAsKubelet(t *testing.T, g *tokenRegistry, namespace, pod, image string, works int) lookupResult {
	t.Helper()
	f := n.lookUpLogins(t, namespace, pod, image)
	tried := f.logins
	if works >= 0 && works < len(tried) {
		tried = tried[:works+1]
	}
	ran, tokens := waitPluginsRun(t, n.kubelet, image), cmp.Options{}
	if !node.FeatureCacheType.IsEnabled() {
		// This kubelet shares a plugin's response among all pods of a service account, even if the
		// response contains one pod's token.
		tokens = append(tokens, cmp.Transformer("account", func(l basicLogin) string {
			account, _, _ := strings.Cut(l.Secret, ", bound to pod ")
			return l.User + ": " + account
		}))
		if !slices.ContainsFunc(ran, func(name string) bool { return !slices.Contains(f.ran, name) }) {
			ran = f.ran
		}
	}
	if diff := cmp.Diff(g.takeLogins(t, image), tried, tokens); diff != "" {
		t.Errorf("the kubelet's logins at the registry differ from the keyring's (-kubelet +keyring)\n%s", diff)
	}
	if node.FeatureConcurrentPlugins.IsEnabled() { // such a kubelet logs each plugin when it exits
		slices.SortFunc(ran, func(a, b string) int { return slices.Index(f.ran, a) - slices.Index(f.ran, b) })
	}
	if diff := cmp.Diff(ran, f.ran); diff != "" {
		t.Errorf("the kubelet has not run the plugins that the keyring has (-kubelet +keyring)\n%s", diff)
	}
	if diff := cmp.Diff(f.logins, n.loginsFromCommand(t, "get", namespace, pod, image)); diff != "" {
		t.Errorf("regcred get differs from the keyring (-keyring +get)\n%s", diff)
	}
	var names []basicLogin
	for _, l := range f.logins {
		names = append(names, basicLogin{User: l.User})
	}
	if diff := cmp.Diff(names, n.loginsFromCommand(t, "explain", namespace, pod, image)); diff != "" {
		t.Errorf("regcred explain differs from the keyring (-keyring +explain)\n%s", diff)
	}
	return f
}

// linkPluginAs creates a symlink called name to a plugin in binDir.
func linkPluginAs(t *testing.T, binDir, plugin, name string) {
	t.Helper()
	must.Do(t, os.Symlink(filepath.Join(node.BinDir(), plugin), filepath.Join(binDir, name)))
}
