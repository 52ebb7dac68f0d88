// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/pull"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/kube"
	"github.com/regcred/regcred/upstream/node"
	"github.com/regcred/regcred/upstream/plugins"
)

// renewedPassword is the password after a registry's password has changed.
const renewedPassword = canary.Marker + "renewed"

// TestFaults revokes credentials and stops components during pulls. For each fault it verifies the
// pod's event, and that regcred reports the same error as the kubelet. The next pull must succeed.
func TestFaults(t *testing.T) {
	node.SkipUnlessSupported(t)
	f := startFaultCluster(t)
	t.Run("revoked credential", f.testRevokedRole)
	t.Run("expiry", func(t *testing.T) {
		t.Run("credential", func(t *testing.T) { t.Parallel(); f.testExpiredCredential(t) })
		t.Run("token", func(t *testing.T) { t.Parallel(); f.testExpiredToken(t) })
	})
	t.Run("API server restart", f.testAPIServer)
	t.Run("containerd restart", f.testContainerd)
	canary.AssertAbsent(t, "the kubelet's log", strings.Join(f.kubelet.LogRecords(t), "\n"))
}

// faultCluster is a node on which TestFaults causes faults.
type faultCluster struct {
	control *node.ControlPlane
	runtime *node.Containerd
	kubelet *node.Kubelet
	ours    regcredOnNode

	revokedRegistry, expiringRegistry *passwordRegistry // registries for which the plugins' responses are valid for an hour, and for 5 seconds
	guard                             *tokenRegistry
	tokenGate                         *blobGate       // receives the requests for token.example and passes them to the guard
	clockAhead                        atomic.Bool // whether the clock of token.example is two hours ahead
}

func startFaultCluster(t *testing.T) *faultCluster {
	t.Helper()
	net := node.NewFakeNetwork(t)
	dir, binDir := t.TempDir(), t.TempDir()
	f := &faultCluster{control: node.StartControlPlane(t), runtime: node.StartContainerd(t, net)}
	f.revokedRegistry = startPasswordRegistry(t, net, dir, "revoked", "1h")
	f.expiringRegistry = startPasswordRegistry(t, net, dir, "expired", "5s")
	f.guard = startTokenRegistry(t, net, f.control, testregistry.Options{})
	f.tokenGate = &blobGate{handler: http.HandlerFunc(f.serveTokens)}
	net.Handle("token.example", f.tokenGate)
	for _, r := range []*passwordRegistry{f.revokedRegistry, f.expiringRegistry} {
		linkPluginAs(t, binDir, plugins.Static, r.name)
	}
	linkPluginAs(t, binDir, plugins.Token, "token")
	f.control.AddNamespace(t, "team")
	f.control.AddServiceAccount(t, "team", "puller", nil)
	f.control.AddServiceAccount(t, "team", "unread", nil)
	f.control.AllowAudience(t, "token.example")
	f.kubelet = node.StartKubelet(t, node.KubeletOptions{
		Runtime: f.runtime, ControlPlane: f.control, BinDir: binDir, Config: node.FeatureServiceAccounts.EnablingConfig(t),
		ProviderConfig: writeProviders(t, filepath.Join(dir, "config.yaml"), "v1", f.revokedRegistry.provider, f.expiringRegistry.provider, tokenProvider("token", "token.example")),
	})
	f.ours = newRegcredOnNode(t, f.kubelet)
	return f
}

// serveTokens passes requests for token.example to the guard. If late is set, it rejects tokens
// that expire within two hours.
func (f *faultCluster) serveTokens(w http.ResponseWriter, r *http.Request) {
	if _, password, ok := r.BasicAuth(); ok && f.clockAhead.Load() {
		if _, err := f.guard.verifyToken(password, r.Host, time.Now().Add(2*time.Hour)); err != nil {
			r = r.Clone(r.Context())
			r.Header.Del("Authorization")
		}
	}
	f.guard.ServeHTTP(w, r)
}

// passwordRegistry is a registry with one user. A plugin reads the user's password from a file.
type passwordRegistry struct {
	*node.Registry
	provider
	gate *blobGate
	file string
}

// startPasswordRegistry starts the registry NAME.example and configures the provider NAME for it.
func startPasswordRegistry(t *testing.T, net *testcloud.FakeNetwork, dir, name, cacheDuration string) *passwordRegistry {
	t.Helper()
	host := name + ".example"
	r := &passwordRegistry{Registry: startRegistry(t, net, host, "ci"), file: writeFile(t, filepath.Join(dir, name+".password"), canary.PasswordSecret)}
	r.gate = &blobGate{handler: r.Registry}
	net.Handle(host, r.gate)
	r.provider = provider{name: name, version: "v1", images: []string{host}, args: []string{
		"--host", host, "--username", "ci", "--password-file", r.file, "--cache-duration", cacheDuration,
	}}
	return r
}

// blobGate passes requests to a handler, and can delay the requests for a repository.
type blobGate struct {
	handler http.Handler

	mu   sync.Mutex
	held map[string]*barrier // barriers by repository
}

type barrier struct {
	arrive, open   sync.Once
	arrived, opens chan struct{} // closed on the first request, and closed to release all requests
}

// holdRepository delays the requests for a repository until the barrier is released, at the latest when the
// test ends.
func (g *blobGate) holdRepository(t *testing.T, repo string) *barrier {
	t.Helper()
	b := &barrier{arrived: make(chan struct{}), opens: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held == nil {
		g.held = map[string]*barrier{}
	}
	g.held[repo] = b
	t.Cleanup(b.release)
	return b
}

func (b *barrier) release() { b.open.Do(func() { close(b.opens) }) }

// wait waits until a request is delayed at the barrier.
func (b *barrier) wait(t *testing.T) {
	t.Helper()
	select {
	case <-b.arrived:
	case <-time.After(time.Minute):
		t.Fatal("the registry got no request")
	}
}

func (g *blobGate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	repo, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/manifests/")
	g.mu.Lock()
	b := g.held[repo]
	g.mu.Unlock()
	if b != nil {
		b.arrive.Do(func() { close(b.arrived) })
		select {
		case <-b.opens:
		case <-r.Context().Done():
			return
		}
	}
	g.handler.ServeHTTP(w, r)
}

// runPod creates a pod in namespace team with one container per image.
func (f *faultCluster) runPod(t *testing.T, name, account string, images ...string) *corev1.Pod {
	t.Helper()
	pod := node.NewPod("team", name, images[0])
	pod.Spec.ServiceAccountName = account
	for i, image := range images[1:] {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: fmt.Sprint("more", i), Image: image, ImagePullPolicy: corev1.PullAlways,
		})
	}
	return f.control.RunPod(t, f.kubelet, pod)
}

// waitPullError waits for a pod's event with the reason why an image could not be pulled.
func (f *faultCluster) waitPullError(t *testing.T, pod *corev1.Pod, image, why string) {
	t.Helper()
	t.Log(f.control.WaitEvent(t, pod, fmt.Sprintf("Failed: Failed to pull image %q: ", image), why))
}

// checkCommand runs a regcred command for the kubelet and checks its exit code. The output must
// contain all texts and no secret.
func (f *faultCluster) checkCommand(t *testing.T, code int, args []string, texts ...string) {
	t.Helper()
	startKubeletCommand(t, f.kubelet, args...).checkOutput(t, code, texts...)
}

// kubeletCommand is a regcred command that takes its settings from a running kubelet.
type kubeletCommand struct {
	*exec.Cmd
	stdout, stderr strings.Builder
}

// startKubeletCommand starts a command, which is killed at the end of the test.
func startKubeletCommand(t *testing.T, k *node.Kubelet, args ...string) *kubeletCommand {
	t.Helper()
	c := &kubeletCommand{Cmd: exec.CommandContext(t.Context(), node.RegcredPath(), append(args, "--as-kubelet="+kubeletPID(t, k))...)}
	c.Dir = t.TempDir()
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.Dir}
	c.Stdout, c.Stderr = &c.stdout, &c.stderr
	must.Do(t, c.Start())
	return c
}

// waitExit waits for the command and returns its exit code.
func (c *kubeletCommand) waitExit(t *testing.T) int {
	t.Helper()
	if err := c.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	canary.AssertAbsent(t, "what regcred says", c.stdout.String()+c.stderr.String())
	return c.ProcessState.ExitCode()
}

func (c *kubeletCommand) checkOutput(t *testing.T, code int, texts ...string) {
	t.Helper()
	got := c.waitExit(t)
	all := c.stdout.String() + c.stderr.String()
	if got != code || !containsAll(all, texts...) {
		t.Errorf("regcred %s exits with %d, want %d, and %q in\n%s", c.Args[1], got, code, texts, all)
	}
}

// kubeletPID returns the process ID of a kubelet.
func kubeletPID(t *testing.T, k *node.Kubelet) string {
	t.Helper()
	files := must.Get(filepath.Glob("/proc/[0-9]*/cmdline"))(t)
	for _, file := range files {
		cmdline, _ := os.ReadFile(file) // the process may have exited
		args := strings.Split(string(cmdline), "\x00")
		if filepath.Base(args[0]) == "kubelet" && slices.Contains(args, "--root-dir="+k.RootDir()) {
			return filepath.Base(filepath.Dir(file))
		}
	}
	t.Fatal("no process is the kubelet")
	return ""
}

// oneCredential is the end of explain's output if a plugin returns a credential. explain does not
// know whether the registry accepts it, or what the kubelet has cached.
const oneCredential = "a pull tries 1 credential and fails if the registry rejects it, with no fallback to an anonymous pull"

// testRevokedRole changes the password at the registry and then on the node. The kubelet uses its
// cached credential until it is restarted. regcred's keyring calls the plugin again after the first
// rejection.
func (f *faultCluster) testRevokedRole(t *testing.T) {
	r := f.revokedRegistry
	f.control.WaitRunning(t, f.runPod(t, "revoked-before", "", r.PushApp(t, "team/before", "v1")))
	image := r.PushApp(t, "team/after", "v1")
	ours := f.startPuller(t)
	ours.pullAndCheck(t, image, "")

	r.SetUser("ci", renewedPassword)
	pod := f.runPod(t, "revoked-after", "", image)
	f.waitPullError(t, pod, image, "401 Unauthorized")
	f.checkCommand(t, 0, []string{"explain", image}, "ok       revoked\n", "1 credential\n", oneCredential)
	intoRuntime := []string{"prepull", "--pull-policy", "Always", image}
	f.checkCommand(t, 1, intoRuntime, "error   "+image+`: provider "revoked", user "ci": `, "401 Unauthorized")

	writeFile(t, r.file, renewedPassword)
	f.checkCommand(t, 0, intoRuntime, "ok      "+image+": pulled ", `with provider revoked, user "ci"`)
	ours.pullAndCheck(t, image, "401 Unauthorized")
	ours.pullAndCheck(t, image, "")
	if execs, drops := ours.ran.count(regcred.EventExec, "revoked"), ours.ran.count(regcred.EventInvalidate, "revoked"); execs != 2 || drops != 1 {
		t.Errorf("our keyring has run the plugin %d times and dropped %d answers, want 2 and 1", execs, drops)
	}

	next := f.runPod(t, "revoked-next", "", image)
	f.waitPullError(t, next, image, "401 Unauthorized")
	if got := f.kubelet.PluginCounts(t)["revoked"].Runs; got != 1 {
		t.Errorf("the kubelet has run the plugin %d times: it is not its cache that fails", got)
	}
	f.kubelet.Restart(t, nil)
	f.control.WaitRunning(t, next)
	f.control.WaitRunning(t, pod)
}

// puller pulls images into the runtime as regcred does. It uses one keyring for all pulls.
type puller struct {
	runtime *pull.Runtime
	keyring *regcred.Keyring
	ran     *pluginRunCounter
}

func (f *faultCluster) startPuller(t *testing.T) *puller {
	t.Helper()
	p := &puller{}
	p.keyring, p.ran = f.ours.newKeyring(t, f.ours.newClient(t))
	p.runtime = must.Get(pull.DialRuntime(t.Context(), f.runtime.Endpoint(), pull.RuntimeOptions{OnRejected: p.keyring.Invalidate}))(t)
	t.Cleanup(func() { p.runtime.Close() })
	return p
}

// pullAndCheck pulls an image and checks the error. want is a part of the error, or "" for success.
func (p *puller) pullAndCheck(t *testing.T, image, want string) {
	t.Helper()
	_, err := p.runtime.Pull(t.Context(), image, pull.PullAlways, func(ctx context.Context) ([]regcred.Credential, error) {
		res, err := p.keyring.Lookup(ctx, regcred.Request{Image: image})
		return res.Credentials, err
	})
	if (err == nil) != (want == "") || !strings.Contains(fmt.Sprint(err), cmp.Or(want, "nil")) {
		t.Errorf("our pull of %s: %v, want %q", image, err, want)
	}
}

// testExpiredCredential uses a credential that expires while the kubelet caches it. The pull fails.
// The kubelet retries it, and succeeds after its cache entry has expired.
func (f *faultCluster) testExpiredCredential(t *testing.T) {
	r := f.expiringRegistry
	first, second := r.PushApp(t, "team/first", "v1"), r.PushApp(t, "team/second", "v1")
	held := r.gate.holdRepository(t, "team/second")
	pod := f.runPod(t, "expired-credential", "", first, second)
	held.wait(t) // this pull uses the cached credential

	r.SetUser("ci", renewedPassword)
	f.checkCommand(t, 1, []string{"prepull", "--pull-policy", "Always", first}, `provider "expired", user "ci": `, "401 Unauthorized")
	writeFile(t, r.file, renewedPassword)
	held.release()
	f.waitPullError(t, pod, second, "401 Unauthorized")
	f.checkCommand(t, 0, []string{"explain", second}, "ok       expired\n", "valid for the whole registry; cached until ", oneCredential)
	f.control.WaitRunning(t, pod)
	if got := f.kubelet.PluginCounts(t)["expired"].Runs; got < 2 {
		t.Errorf("the kubelet has run the plugin %d times, want 2: nothing has expired", got)
	}
}

// testExpiredToken uses a token that has expired by the registry's clock, but not by the node's
// clock. The plugin would not send a token that has expired by the node's clock.
func (f *faultCluster) testExpiredToken(t *testing.T) {
	f.clockAhead.Store(true)
	image := f.guard.pushImage(t, "token.example", "team/late")
	pod := f.runPod(t, "expired-token", "puller", image)
	f.waitPullError(t, pod, image, "401 Unauthorized")
	asPod := []string{"--pod", "team/expired-token", image}
	f.checkCommand(t, 0, append([]string{"explain"}, asPod...), `token requested for audience "token.example"`, "ok       token\n", oneCredential)
	f.checkCommand(t, 1, append([]string{"prepull", "--pull-policy", "Always", "--allow-all-pods"}, asPod...),
		`provider "token", user "serviceaccount": `, "401 Unauthorized")
	f.clockAhead.Store(false)
	f.control.WaitRunning(t, pod)

	withToken := func(token string) []string {
		return []string{"explain", "--service-account-token-file", writeFile(t, filepath.Join(t.TempDir(), "token"), token), image}
	}
	f.checkCommand(t, 1, withToken(expiredToken(t)), "error    token\n", "the service-account token expired ", "the kubelet would still pull anonymously")
	f.checkCommand(t, 0, withToken(f.freshToken(t, pod)), "ok       token\n", oneCredential)
}

// expiredToken returns an expired token.
func expiredToken(t *testing.T) string {
	t.Helper()
	key := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	const payload = `{"iss":"https://kubernetes.default.svc","sub":"system:serviceaccount:team:puller","aud":["token.example"],"exp":%d}`
	return signToken(t, key, `{"alg":"RS256"}`, fmt.Sprintf(payload, time.Now().Add(-time.Minute).Unix()))
}

// freshToken returns a new token of a pod's service account.
func (f *faultCluster) freshToken(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"token.example"}}}
	answer, err := f.control.Client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(t.Context(), pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Token
}

// testAPIServer restarts the API server while a pod with two images starts. The running pull
// continues. The other pull needs the service account again, and fails until the API server is
// back. regcred's client continues with its cached data and reports which data is missing.
func (f *faultCluster) testAPIServer(t *testing.T) {
	first, second := f.guard.pushImage(t, "token.example", "team/during"), f.guard.pushImage(t, "token.example", "team/needed")
	unread := f.runPod(t, "unread", "unread", f.guard.pushImage(t, "token.example", "team/unread"))
	f.control.WaitRunning(t, unread)
	held := f.tokenGate.holdRepository(t, "team/during")
	pod := f.runPod(t, "during", "puller", first, second)
	held.wait(t)
	ours, _ := f.ours.newKeyring(t, f.ours.newClient(t))
	f.checkLookup(t, ours, pod, "team/known")

	f.control.Stop()
	held.release()
	repo, _, _ := strings.Cut(second, ":")
	node.Eventually(t, time.Minute, func(context.Context) error {
		if got := f.kubelet.Failures(t, node.FailureFilter{Provider: "token", Image: repo, Account: "team/puller"}); !strings.Contains(strings.Join(got, "\n"), "connection refused") {
			return fmt.Errorf("the kubelet's log says of the provider %q", got)
		}
		return nil
	})
	f.checkLookup(t, ours, pod, "team/known")
	f.checkLookup(t, ours, pod, "team/other")
	err := lookUpToken(t.Context(), ours, unread, "team/known")
	var failed *kube.Error
	if !errors.As(err, &failed) || !failed.IsUnavailable() ||
		!containsAll(err.Error(), "get serviceaccounts team/unread: "+f.control.URL, "connection refused") {
		t.Errorf("our lookup for a service account that was not read before: %v", err)
	}
	explain := []string{"explain", "--pod", "team/during", second}
	f.checkCommand(t, 1, explain, "get pods team/during: "+f.control.URL, "connection refused")

	f.control.Start(t)
	// After a restart, an API server needs a moment to allow nodes to read their
	// objects.
	node.Eventually(t, time.Minute, func(ctx context.Context) error { return lookUpToken(ctx, ours, unread, "team/known") })
	f.waitPullError(t, pod, second, "401 Unauthorized")
	f.control.WaitRunning(t, pod)
	f.checkCommand(t, 0, explain, `token requested for audience "token.example"`, oneCredential)
}

// checkLookup checks that a lookup of an image in token.example returns a credential
// for a pod.
func (f *faultCluster) checkLookup(t *testing.T, k *regcred.Keyring, pod *corev1.Pod, repo string) {
	t.Helper()
	if err := lookUpToken(t.Context(), k, pod, repo); err != nil {
		t.Errorf("our lookup for pod %s: %v", pod.Name, err)
	}
}

// lookUpToken looks up an image of token.example for a pod.
func lookUpToken(ctx context.Context, k *regcred.Keyring, pod *corev1.Pod, repo string) error {
	res, err := k.Lookup(ctx, regcred.Request{Image: "token.example/" + repo, Pod: podIdentity(pod)})
	if err == nil && len(res.Credentials) != 1 {
		err = fmt.Errorf("%d credentials, want 1", len(res.Credentials))
	}
	return err
}

// testContainerd kills containerd while the kubelet and regcred pull. The kubelet retries later.
// regcred waits for containerd and repeats its pull.
func (f *faultCluster) testContainerd(t *testing.T) {
	r := f.revokedRegistry
	byKubelet, byUs, idle := r.PushApp(t, "team/by-kubelet", "v1"), r.PushApp(t, "team/by-us", "v1"), r.PushApp(t, "team/idle", "v1")
	kubeletHeld, ourHeld := r.gate.holdRepository(t, "team/by-kubelet"), r.gate.holdRepository(t, "team/by-us")
	pod := f.runPod(t, "containerd", "", byKubelet)
	ours := startKubeletCommand(t, f.kubelet, "prepull", "--pull-policy", "Always", "--runtime-endpoint", f.runtime.Endpoint(), byUs)
	kubeletHeld.wait(t)
	ourHeld.wait(t)

	f.runtime.Stop()
	kubeletHeld.release()
	ourHeld.release()
	f.checkCommand(t, 0, []string{"explain", byKubelet}, oneCredential)
	f.checkCommand(t, 1, []string{"prepull", "--pull-policy", "Always", idle}, "nothing is listening on the socket: the runtime has exited")
	f.runtime.Start(t)
	ours.checkOutput(t, 0, "ok      "+byUs+": pulled ", `with provider revoked, user "ci"`)
	f.waitPullError(t, pod, byKubelet, "code = Unavailable")
	f.control.WaitRunning(t, pod)
	if pulls := r.ManifestRequests("team/idle"); len(pulls) != 0 {
		t.Errorf("the registry got a request for the image that regcred could not begin to pull: %v", registryResponses(pulls))
	}
}
