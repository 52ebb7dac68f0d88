// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	credentialproviderapi "k8s.io/kubelet/pkg/apis/credentialprovider"
	"k8s.io/kubernetes/pkg/kubelet/token"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/kube"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/kubelet"
	"github.com/regcred/regcred/upstream/node"
)

var runSpeedTests = flag.Bool("speed", false, "measure at full size, and print the tables of docs/project/performance.md")

// keyringSubject is regcred's or the kubelet's keyring. Each keyring looks up the pods of its own
// node, so that the API server's audit log distinguishes them.
type keyringSubject struct {
	name   string
	lookup func(ctx context.Context, image string, pod *corev1.Pod) (credentials int, err error)
	execs  *atomic.Int64
}

// writeSpeedConfig writes a configuration for both keyrings. Its plugin is never run, because both
// keyrings call a function instead.
func writeSpeedConfig(t *testing.T, cacheType config.TokenCacheType) (path, binDir string) {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "speed"), nil, 0o755))
	path = filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: speed
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: [registry.example]
  defaultCacheDuration: 1h
  tokenAttributes:
    serviceAccountTokenAudience: registry.example
    cacheType: %s
    requireServiceAccount: true
`, cacheType)
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path, dir
}

// newRegcredKeyringSubject returns regcred's keyring, with package kube.
func newRegcredKeyringSubject(t *testing.T, control *node.ControlPlane, path string) keyringSubject {
	t.Helper()
	s := keyringSubject{name: "system:node:ours", execs: new(atomic.Int64)}
	client := must.Get(kube.New(control.ClientConfig(t, s.name, "system:nodes"), kube.Options{}))(t)
	cfg := must.Get(config.Load(path))(t)
	ask := func(context.Context, *plugin.Request) (*plugin.Response, error) {
		s.execs.Add(1)
		return &plugin.Response{
			CacheKeyType: plugin.CacheRegistry, CacheDuration: new(time.Hour),
			Auth: map[string]plugin.AuthConfig{"registry.example": {Username: "pod", Password: plugin.NewSecret(canary.PasswordSecret)}},
		}, nil
	}
	k := must.Get(regcred.New(cfg, regcred.Options{
		BinDir: "none", ServiceAccounts: client, InProcess: map[string]plugin.Provider{"speed": plugin.ProviderFunc(ask)},
	}))(t)
	t.Cleanup(func() { k.Close() })
	s.lookup = func(ctx context.Context, image string, pod *corev1.Pod) (int, error) {
		res, err := k.Lookup(ctx, regcred.Request{Image: image, Pod: podIdentity(pod)})
		return len(res.Credentials), err
	}
	return s
}

func podIdentity(pod *corev1.Pod) *regcred.Pod {
	return &regcred.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), ServiceAccount: pod.Spec.ServiceAccountName}
}

// countingPlugin is the in-process plugin of the kubelet's keyring. It counts its calls.
type countingPlugin struct{ n *atomic.Int64 }

func (c countingPlugin) ExecPlugin(context.Context, string, string, map[string]string) (*credentialproviderapi.CredentialProviderResponse, error) {
	c.n.Add(1)
	return &credentialproviderapi.CredentialProviderResponse{
		CacheKeyType: credentialproviderapi.RegistryPluginCacheKeyType, CacheDuration: &metav1.Duration{Duration: time.Hour},
		Auth: map[string]credentialproviderapi.AuthConfig{"registry.example": {Username: "pod", Password: canary.PasswordSecret}},
	}, nil
}

// newKubeletKeyringSubject returns the kubelet's keyring with the kubelet's token manager.
func newKubeletKeyringSubject(t *testing.T, control *node.ControlPlane, path, binDir string) keyringSubject {
	t.Helper()
	s := keyringSubject{name: "system:node:theirs", execs: new(atomic.Int64)}
	client, err := kubernetes.NewForConfig(control.ClientConfig(t, s.name, "system:nodes"))
	if err != nil {
		t.Fatal(err)
	}
	manager := token.NewManager(client)
	must.Do(t, kubelet.RegisterPlugins(path, binDir, kubelet.TokenFuncs{
		Token: func(namespace, name string, tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
			return manager.GetServiceAccountToken(namespace, name, tr)
		},
		ServiceAccount: func(namespace, name string) (*corev1.ServiceAccount, error) {
			return client.CoreV1().ServiceAccounts(namespace).Get(context.Background(), name, metav1.GetOptions{})
		},
	}))
	must.Do(t, kubelet.SetPlugin(0, countingPlugin{s.execs}))
	s.lookup = func(_ context.Context, image string, pod *corev1.Pod) (int, error) {
		repo, _, _ := strings.Cut(image, "@")
		creds, _ := kubelet.NewKeyring(pod.Namespace, pod.Name, string(pod.UID), pod.Spec.ServiceAccountName).Lookup(repo)
		return len(creds), nil
	}
	return s
}

// createSpeedPods creates pods and their service accounts on a node without a kubelet.
func createSpeedPods(t *testing.T, control *node.ControlPlane, nodeName string, pods, accounts int) []*corev1.Pod {
	t.Helper()
	namespace := nodeName
	control.AddNamespace(t, namespace)
	for i := range accounts {
		control.AddServiceAccount(t, namespace, fmt.Sprint("account-", i), nil)
	}
	list := make([]*corev1.Pod, pods)
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(16)
	for i := range list {
		g.Go(func() (err error) {
			pod := node.NewPod(namespace, fmt.Sprint("pod-", i), "registry.example/app")
			pod.Spec.NodeName, pod.Spec.ServiceAccountName = nodeName, fmt.Sprint("account-", i%accounts)
			list[i], err = control.Client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
			return err
		})
	}
	must.Do(t, g.Wait())
	return list
}

// lookUpAll looks up images for pods, eight at a time.
func (s keyringSubject) lookUpAll(t *testing.T, pods []*corev1.Pod, images int) {
	t.Helper()
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(8)
	for _, pod := range pods {
		g.Go(func() error {
			for i := range images {
				n, err := s.lookup(ctx, fmt.Sprintf("registry.example/app-%d", i), pod)
				if err != nil || n != 1 {
					return fmt.Errorf("%s: pod %s: %d credentials, %w", s.name, pod.Name, n, err)
				}
			}
			return nil
		})
	}
	must.Do(t, g.Wait())
}

// countAPICalls returns how many token requests and reads of service accounts a keyring has sent to the API
// server.
func (s keyringSubject) countAPICalls(t *testing.T, control *node.ControlPlane) (tokens, accounts int) {
	t.Helper()
	for _, call := range control.AuditCalls(t, s.name) {
		if call.Code >= 300 {
			t.Errorf("the API server refused: %+v", call)
		}
		switch call.Resource {
		case "serviceaccounts/token":
			tokens++
		case "serviceaccounts":
			accounts++
		}
	}
	return tokens, accounts
}

// TestSpeedPods compares the API requests of both keyrings for pods of one service account, and
// their lookups with a cached response.
func TestSpeedPods(t *testing.T) {
	node.SkipUnlessSupported(t)
	node.RequireDefaultKubelet(t, "its kubelet is what this program is linked with")
	kubelet.DisableLog()
	pods := 25
	if *runSpeedTests {
		pods = 500
	}
	const images = 20
	for _, cacheType := range []config.TokenCacheType{config.CachePerServiceAccount, config.CachePerToken} {
		t.Run(string(cacheType), func(t *testing.T) {
			control := node.StartControlPlane(t)
			control.AllowAudience(t, "registry.example")
			path, binDir := writeSpeedConfig(t, cacheType)
			ours, theirs := newRegcredKeyringSubject(t, control, path), newKubeletKeyringSubject(t, control, path, binDir)
			ourPods, theirPods := createSpeedPods(t, control, "ours", pods, 1), createSpeedPods(t, control, "theirs", pods, 1)
			began := time.Now()
			ours.lookUpAll(t, ourPods, images)
			ourTime := time.Since(began)
			began = time.Now()
			theirs.lookUpAll(t, theirPods, images)
			theirTime := time.Since(began)

			ourTokens, ourAccounts := ours.countAPICalls(t, control)
			theirTokens, theirAccounts := theirs.countAPICalls(t, control)
			t.Logf("%d pods × %d images, cacheType %s: regcred %d TokenRequests, %d execs, %d reads of the service account, %v; "+
				"kubelet %d TokenRequests, %d execs, %d reads, %v",
				pods, images, cacheType, ourTokens, ours.execs.Load(), ourAccounts, ourTime.Round(time.Millisecond),
				theirTokens, theirs.execs.Load(), theirAccounts, theirTime.Round(time.Millisecond))
			want := 1
			if cacheType == config.CachePerToken {
				want = pods
			}
			if ourTokens != want || ours.execs.Load() != int64(want) {
				t.Errorf("regcred: %d TokenRequests and %d execs, want %d", ourTokens, ours.execs.Load(), want)
			}
			if theirTokens != pods || theirAccounts != pods*images {
				t.Errorf("kubelet: %d TokenRequests and %d reads of the service account, want %d and %d: the comparison is not what it says", theirTokens, theirAccounts, pods, pods*images)
			}
			compareCachedLookups(t, control, ours, theirs, ourPods[0], theirPods[0])
		})
	}
}

// compareCachedLookups measures lookups with cached responses.
func compareCachedLookups(t *testing.T, control *node.ControlPlane, ours, theirs keyringSubject, ourPod, theirPod *corev1.Pod) {
	t.Helper()
	rounds, n := 1, 20
	if *runSpeedTests {
		rounds, n = 7, 200
	}
	ours.lookUpAll(t, []*corev1.Pod{ourPod}, 1) // refreshes the cached service account
	tokens, accounts := ours.countAPICalls(t, control)
	var x, y []time.Duration
	for range rounds {
		x = append(x, measurePerLookup(t, ours, ourPod, n))
		y = append(y, measurePerLookup(t, theirs, theirPod, n))
	}
	moreTokens, moreAccounts := ours.countAPICalls(t, control)
	t.Logf("warm lookup, median of %d rounds of %d: regcred %v, kubelet %v, %.0f×; API calls of regcred: %d",
		rounds, n, median(x), median(y), float64(median(y))/float64(median(x)), moreTokens+moreAccounts-tokens-accounts)
	if moreTokens != tokens {
		t.Errorf("regcred requested %d more tokens for answers that were cached", moreTokens-tokens)
	}
	if !*runSpeedTests && moreAccounts != accounts {
		t.Errorf("regcred read the service account %d more times within 10 s", moreAccounts-accounts)
	}
}

func measurePerLookup(t *testing.T, s keyringSubject, pod *corev1.Pod, n int) time.Duration {
	t.Helper()
	began := time.Now()
	for range n {
		if got, err := s.lookup(t.Context(), "registry.example/app-0", pod); got != 1 || err != nil {
			t.Fatalf("%d credentials, %v", got, err)
		}
	}
	return time.Since(began) / time.Duration(n)
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// TestSpeedMemory verifies that a process that serves the lookups of 5,000 pods with 500 service accounts stays below 60
// MB.
func TestSpeedMemory(t *testing.T) {
	node.SkipUnlessSupported(t)
	pods, accounts := 200, 20
	if *runSpeedTests {
		pods, accounts = 5000, 500
	}
	const bound = 60 << 20
	control := node.StartControlPlane(t)
	control.AllowAudience(t, "registry.example")
	var list []regcred.Pod
	for _, pod := range createSpeedPods(t, control, "many", pods, accounts) {
		list = append(list, *podIdentity(pod))
	}
	stdin := must.Get(json.Marshal(list))(t)
	program := filepath.Join(t.TempDir(), "manypods")
	if out, err := exec.Command("go", "build", "-o", program, "./manypods").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, cacheType := range []config.TokenCacheType{config.CachePerServiceAccount, config.CachePerToken} {
		path, _ := writeSpeedConfig(t, cacheType)
		cmd := exec.CommandContext(t.Context(), program, control.WriteNodeKubeconfig(t, "many"), path, "registry.example/app")
		cmd.Stdin = bytes.NewReader(stdin)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("manypods: %v\n%s", err, stderrOf(err))
		}
		var used struct{ Resident, Most, Heap uint64 }
		must.Do(t, json.Unmarshal(out, &used))
		t.Logf("%d pods, %d service accounts, cacheType %s: resident %.1f MB, at most %.1f MB, heap %.1f MB", pods, accounts, cacheType,
			float64(used.Resident)/1e6, float64(used.Most)/1e6, float64(used.Heap)/1e6)
		if used.Most > bound {
			t.Errorf("cacheType %s: at most %d bytes were resident, want no more than %d", cacheType, used.Most, uint64(bound))
		}
	}
}

func stderrOf(err error) string {
	if e, ok := err.(*exec.ExitError); ok {
		return string(e.Stderr)
	}
	return ""
}
