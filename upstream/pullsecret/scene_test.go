// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/pullsecret"
	"github.com/regcred/regcred/internal/pullsecret/manifest"
	"github.com/regcred/regcred/upstream/node"
)

const (
	systemNamespace = "regcred-system"
	controllerName  = "regcred-controller"
	secretName      = "regcred-pull"
)

var selected = map[string]string{"regcred.dev/pull-secrets": "enabled"}

// scene is an API server with the controller's roles and policies, and a proxy in front of it.
type scene struct {
	*node.ControlPlane
	proxy   *proxy
	dir     string
	clients int
}

const pullSecrets = `apiVersion: regcred.dev/v1alpha1
kind: PullSecretConfig
namespaces: {matchLabels: {regcred.dev/pull-secrets: enabled}}
serviceAccounts: [app]
removalGracePeriod: 4s
rules:
- registries: [r.example, docker.io]
`

// providers returns a provider configuration with "shared" for all identities and "account" for service
// accounts. Both are scripts.
func providers(more string) string {
	return `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: shared
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  defaultCacheDuration: 1h
  matchImages: ["*.example", docker.io]
- name: account
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  defaultCacheDuration: 1h
  matchImages: [r.example]
  tokenAttributes:
    serviceAccountTokenAudience: registry.example
    cacheType: ServiceAccount
    requireServiceAccount: true
    optionalServiceAccountAnnotationKeys: [registry.example/user]
` + more
}

// script is a plugin. It records its requests and prints a response that a test can change.
const script = `#!/bin/sh
name=$(basename "$0")
cat >>"DIR/$name.requests"
echo >>"DIR/$name.requests"
[ ! -e "DIR/$name.fail" ] || { echo cloud down >&2; exit 1; }
cat "DIR/$name.response"
`

func newScene(t *testing.T) *scene {
	t.Helper()
	node.SkipUnlessSupported(t)
	s := &scene{ControlPlane: node.StartControlPlane(t), dir: t.TempDir()}
	s.proxy = startProxy(t, s)
	s.write(t, "pull-secrets.yaml", pullSecrets)
	s.write(t, "providers.yaml", providers(""))
	for _, name := range []string{"shared", "account"} {
		path := s.write(t, "bin/"+name, strings.ReplaceAll(script, "DIR", s.dir))
		must.Do(t, os.Chmod(path, 0o755))
		s.respond(t, name, canary.PasswordSecret+name, time.Hour)
	}
	s.AddNamespace(t, systemNamespace)
	s.AddServiceAccount(t, systemNamespace, controllerName, nil)
	s.applyManifests(t)
	return s
}

func (s *scene) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(s.dir, name)
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path+".part", []byte(text), 0o644))
	must.Do(t, os.Rename(path+".part", path))
	return path
}

// respond sets the response of a plugin, for all its images.
func (s *scene) respond(t *testing.T, name, password string, d time.Duration) {
	t.Helper()
	auth := map[string]string{"username": "ci", "password": password}
	data := must.Get(json.Marshal(map[string]any{
		"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "kind": "CredentialProviderResponse",
		"cacheKeyType": "Global", "cacheDuration": d.String(),
		"auth": map[string]any{"*.example": auth, "docker.io": auth},
	}))(t)
	s.write(t, name+".response", string(data))
}

// fail makes a plugin fail, or work again.
func (s *scene) fail(t *testing.T, name string, fails bool) {
	t.Helper()
	path := filepath.Join(s.dir, name+".fail")
	if fails {
		must.Do(t, os.WriteFile(path, nil, 0o644))
	} else {
		must.Do(t, os.Remove(path))
	}
}

// requests returns the requests that a plugin got.
func (s *scene) requests(t *testing.T, name string) (lines []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, name+".requests"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	must.Do(t, err)
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// applyManifests applies what "regcred rbac" prints for the scene's configuration.
func (s *scene) applyManifests(t *testing.T) {
	t.Helper()
	f := must.Get(pullsecret.Load(t.Context(), filepath.Join(s.dir, "pull-secrets.yaml")))(t)
	c := must.Get(config.Load(filepath.Join(s.dir, "providers.yaml")))(t)
	text := must.Get(manifest.Render(f, c, manifest.Options{Namespace: systemNamespace, ServiceAccount: controllerName, Inject: true}))(t)
	s.applyYAML(t, text)
	s.waitForPolicies(t)
}

func (s *scene) applyYAML(t *testing.T, text []byte) {
	t.Helper()
	admin := s.ClientConfig(t, "admin", "system:masters")
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery.NewDiscoveryClientForConfigOrDie(admin)))
	client := dynamic.NewForConfigOrDie(admin)
	d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var o unstructured.Unstructured
		err := d.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return
		}
		must.Do(t, err)
		if len(o.Object) == 0 {
			continue
		}
		kind := o.GroupVersionKind()
		mapping := must.Get(mapper.RESTMapping(kind.GroupKind(), kind.Version))(t)
		r := client.Resource(mapping.Resource)
		var on dynamic.ResourceInterface = r
		if o.GetNamespace() != "" {
			on = r.Namespace(o.GetNamespace())
		}
		_, err = on.Apply(t.Context(), o.GetName(), &o, metav1.ApplyOptions{FieldManager: "test", Force: true})
		must.Do(t, err)
	}
}

// waitForPolicies waits until the API server enforces the policies.
func (s *scene) waitForPolicies(t *testing.T) {
	t.Helper()
	s.AddNamespace(t, "not-selected")
	client := s.controllerClient(t)
	node.Eventually(t, 30*time.Second, func(ctx context.Context) error {
		err := s.applySecret(ctx, client, "not-selected", secretName, metav1.PatchOptions{DryRun: []string{"All"}})
		if err == nil || !strings.Contains(err.Error(), "the namespace is not selected") {
			return fmt.Errorf("the policy is not enforced: %v", err)
		}
		pod, err := s.Client.CoreV1().Pods("default").Create(ctx, newPod("default", "probe"), metav1.CreateOptions{DryRun: []string{"All"}})
		if err == nil && len(pod.Spec.ImagePullSecrets) > 0 {
			return errors.New("the policy changes pods of other namespaces")
		}
		return nil
	})
}

func newPod(namespace, name string) *corev1.Pod {
	return node.NewPod(namespace, name, "r.example/app:v1")
}

// controllerConfig returns a client configuration with the controller's identity.
func (s *scene) controllerConfig(t *testing.T) *rest.Config {
	t.Helper()
	return s.ClientConfig(t, "system:serviceaccount:"+systemNamespace+":"+controllerName, "system:serviceaccounts", "system:serviceaccounts:"+systemNamespace)
}

func (s *scene) controllerClient(t *testing.T) kubernetes.Interface {
	t.Helper()
	return must.Get(kubernetes.NewForConfig(s.controllerConfig(t)))(t)
}

// applySecret applies an empty Secret as the controller does.
func (s *scene) applySecret(ctx context.Context, c kubernetes.Interface, namespace, name string, o metav1.PatchOptions) error {
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","type":"kubernetes.io/dockerconfigjson","metadata":{"name":%q,"labels":{"app.kubernetes.io/managed-by":"regcred-controller"}},"data":{".dockerconfigjson":"eyJhdXRocyI6e319"}}`, name)
	o.FieldManager = "regcred-controller-create"
	_, err := c.CoreV1().Secrets(namespace).Patch(ctx, name, types.ApplyPatchType, []byte(body), o)
	return err
}

func (s *scene) addNamespace(t *testing.T, name string) {
	t.Helper()
	o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: selected}}
	must.Get(s.Client.CoreV1().Namespaces().Create(t.Context(), o, metav1.CreateOptions{}))(t)
}

func (s *scene) secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return s.Client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
}

// passwords returns the passwords of a Secret by key.
func passwords(s *corev1.Secret) map[string]string {
	var x struct {
		Auths map[string]struct{ Password string }
	}
	if json.Unmarshal(s.Data[corev1.DockerConfigJsonKey], &x) != nil {
		return nil
	}
	m := map[string]string{}
	for k, a := range x.Auths {
		m[k] = a.Password
	}
	return m
}

// waitPassword waits until a Secret has a password for a key, and returns the Secret.
func (s *scene) waitPassword(t *testing.T, namespace, name, key, want string) (found *corev1.Secret) {
	t.Helper()
	node.Eventually(t, 40*time.Second, func(ctx context.Context) (err error) {
		if found, err = s.secret(ctx, namespace, name); err != nil {
			return err
		}
		if got := passwords(found)[key]; got != want {
			return fmt.Errorf("%s/%s: password of %s is %q, want %q; annotations %v", namespace, name, key, got, want, found.Annotations)
		}
		return nil
	})
	return found
}

// waitEvent waits for an event in a namespace that contains all texts.
func (s *scene) waitEvent(t *testing.T, namespace string, texts ...string) {
	t.Helper()
	node.Eventually(t, 40*time.Second, func(ctx context.Context) error {
		list, err := s.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var all []string
		for _, e := range list.Items {
			text := e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name + " " + e.Reason + ": " + e.Message
			found := true
			for _, want := range texts {
				found = found && strings.Contains(text, want)
			}
			if found {
				return nil
			}
			all = append(all, text)
		}
		return fmt.Errorf("no event with %q in\n%s", texts, strings.Join(all, "\n"))
	})
}

// controller is a running regcred-controller.
type controller struct {
	cmd  *exec.Cmd
	done chan struct{}
	log  string
}

// start starts a controller that reaches the API server through the proxy.
func (s *scene) start(t *testing.T) *controller {
	t.Helper()
	return s.run(t, "controller", s.args(t)...)
}

func (s *scene) args(t *testing.T) []string {
	t.Helper()
	return []string{
		"--config", filepath.Join(s.dir, "providers.yaml"), "--pull-secrets", filepath.Join(s.dir, "pull-secrets.yaml"),
		"--bin-dir", filepath.Join(s.dir, "bin"), "--kubeconfig", s.proxyKubeconfig(t), "--leader-election-namespace", systemNamespace, "--reload-interval", "500ms",
	}
}

// run starts regcred-controller with arguments, until the test ends.
func (s *scene) run(t *testing.T, name string, args ...string) *controller {
	t.Helper()
	s.clients++
	c := &controller{done: make(chan struct{}), log: filepath.Join(s.dir, fmt.Sprintf("%s-%d.log", name, s.clients))}
	c.cmd = exec.Command(node.ControllerPath(), args...)
	log := must.Get(os.Create(c.log))(t)
	defer log.Close()
	c.cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	c.cmd.Stdout, c.cmd.Stderr = log, log
	must.Do(t, c.cmd.Start())
	go func() { defer close(c.done); _ = c.cmd.Wait() }()
	t.Cleanup(func() {
		c.kill()
		text := string(must.Get(os.ReadFile(c.log))(t))
		canary.AssertAbsent(t, "the log of "+name, text)
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(c.log), text[max(0, len(text)-6000):])
		}
	})
	return c
}

func (c *controller) kill() {
	_ = c.cmd.Process.Kill()
	<-c.done
}

// stop ends a controller gracefully, so that it gives up its lease.
func (c *controller) stop(t *testing.T) {
	t.Helper()
	must.Do(t, c.cmd.Process.Signal(os.Interrupt))
	select {
	case <-c.done:
	case <-time.After(20 * time.Second):
		t.Fatal("the controller does not stop")
	}
}

// proxyKubeconfig returns a kubeconfig for the proxy with a token of the controller's service account.
func (s *scene) proxyKubeconfig(t *testing.T) string {
	t.Helper()
	file := clientcmdapi.NewConfig()
	file.Clusters["c"] = &clientcmdapi.Cluster{Server: s.proxy.URL}
	file.AuthInfos["c"] = &clientcmdapi.AuthInfo{Token: s.proxy.token}
	file.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "c"}
	file.CurrentContext = "c"
	path := filepath.Join(s.dir, "kubeconfig")
	must.Do(t, clientcmd.WriteToFile(*file, path))
	return path
}

// proxy forwards requests with the controller's identity, records them, and injects faults.
type proxy struct {
	*httptest.Server
	token string

	mu       sync.Mutex
	recorded []proxied
	fault    func(*http.Request) *fault // nil forwards the request
}

type proxied struct{ method, path, query, contentType, accept, response string }

// fault replaces a response.
type fault struct {
	status     int
	reason     metav1.StatusReason
	retryAfter string
	forward    bool   // the API server gets the request first
	hook       func() // called before the response
}

func startProxy(t *testing.T, s *scene) *proxy {
	t.Helper()
	p := &proxy{token: "proxy"}
	target := must.Get(url.Parse(s.URL))(t)
	transport := must.Get(rest.TransportFor(s.controllerConfig(t)))(t)
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Header.Del("Authorization") },
		Transport:     recordingTransport{transport, p},
		FlushInterval: -1, ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		choose := p.fault
		p.mu.Unlock()
		var f *fault
		if choose != nil {
			f = choose(r)
		}
		if f == nil {
			forward.ServeHTTP(w, r)
			return
		}
		if f.forward {
			forward.ServeHTTP(httptest.NewRecorder(), r)
		}
		if f.hook != nil {
			f.hook()
		}
		if f.retryAfter != "" {
			w.Header().Set("Retry-After", f.retryAfter)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(f.status)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(f.status), Reason: f.reason, Message: "injected"})
	}))
	t.Cleanup(func() { p.CloseClientConnections(); p.Close() })
	return p
}

type recordingTransport struct {
	http.RoundTripper
	p *proxy
}

// RoundTrip records a request and, for requests that are not watches, the response.
func (t recordingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	x := proxied{method: r.Method, path: r.URL.Path, query: r.URL.RawQuery, contentType: r.Header.Get("Content-Type"), accept: r.Header.Get("Accept")}
	resp, err := t.RoundTripper.RoundTrip(r)
	if err == nil && !strings.Contains(r.URL.RawQuery, "watch=") {
		data, readErr := io.ReadAll(resp.Body)
		resp.Body.Close()
		if readErr != nil {
			return nil, readErr
		}
		resp.Body = io.NopCloser(bytes.NewReader(data))
		x.response = string(data)
	}
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	t.p.recorded = append(t.p.recorded, x)
	return resp, err
}

// setFault replaces the proxy's fault.
func (p *proxy) setFault(f func(*http.Request) *fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

// find returns the recorded requests of a method whose path ends in suffix.
func (p *proxy) find(method, suffix string) (found []proxied) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.recorded {
		if x.method == method && strings.HasSuffix(x.path, suffix) {
			found = append(found, x)
		}
	}
	return found
}
