// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/serve/client"
	"github.com/regcred/regcred/plugin"
)

// TestMain makes the test binary run as a plugin or a client if it is called by that name.
func TestMain(m *testing.M) {
	switch name := filepath.Base(os.Args[0]); {
	case strings.HasPrefix(name, "plugin-"):
		os.Exit(runPlugin(strings.TrimPrefix(name, "plugin-")))
	case name == "client":
		os.Exit(runClient())
	}
	os.Exit(m.Run())
}

// runPlugin runs as a plugin. Its environment contains the directory in which it counts its runs.
// The password is the content of a file there.
func runPlugin(how string) int {
	dir := os.Getenv("PLUGIN_DIR")
	f, err := os.OpenFile(filepath.Join(dir, "runs"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 3
	}
	fmt.Fprintf(f, "%s %s\n", how, os.Getenv(client.SocketEnv))
	f.Close()
	switch how {
	case "hangs":
		time.Sleep(time.Hour)
	case "floods":
		for {
			_, _ = os.Stdout.WriteString(strings.Repeat(canary.PasswordSecret, 1000))
		}
	case "forks":
		child := exec.Command("sleep", "60")
		child.Stdout = os.Stdout
		_ = child.Start()
		return 1
	}
	return plugin.Serve(context.Background(), plugin.ProviderFunc(func(_ context.Context, req *plugin.Request) (*plugin.Response, error) {
		for range 600 { // until the file does not exist
			if _, err := os.Stat(filepath.Join(dir, "wait")); err != nil {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		password, err := os.ReadFile(filepath.Join(dir, "password"))
		if err != nil || how == "fails" {
			return nil, errors.New("no route to " + req.ServiceAccountToken.Reveal())
		}
		resp := &plugin.Response{CacheKeyType: plugin.CacheRegistry, CacheDuration: new(time.Hour), Auth: map[string]plugin.AuthConfig{}}
		if how != "none" {
			resp.Auth[req.Registry()] = plugin.AuthConfig{Username: how, Password: plugin.NewSecret(string(password))}
		}
		return resp, nil
	}), plugin.ServeOptions{Name: how, Args: []string{}})
}

// testService is a running service with its plugins.
type testService struct {
	*Server
	t      testing.TB
	dir    string // of the plugins
	socket string
	log    *lockedBuffer
	stop   func() error
	http   http.Client
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// newTestService creates a service with plugins, given as NAME=PATTERN. It does not start it.
func newTestService(t testing.TB, plugins ...string) *testService {
	t.Helper()
	dir := t.TempDir()
	s := &testService{t: t, dir: dir, log: &lockedBuffer{}, socket: filepath.Join(dir, "run", "regcred.sock")}
	must.Do(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o755))
	s.setPassword(canary.PasswordSecret)
	s.writeConfig(plugins...)
	s.Server = &Server{
		Source:        Source{Config: filepath.Join(dir, "config.json"), BinDir: filepath.Join(dir, "bin")},
		Environ:       append(os.Environ(), "PLUGIN_DIR="+dir),
		PluginTimeout: 20 * time.Second,
		Logger:        slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	s.http.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", s.socket)
	}}
	return s
}

func (s *testService) writeConfig(plugins ...string) {
	s.t.Helper()
	var list []map[string]any
	self := must.Get(os.Executable())(s.t)
	for _, p := range plugins {
		name, pattern, _ := strings.Cut(p, "=")
		name = "plugin-" + name
		list = append(list, map[string]any{"name": name, "matchImages": strings.Split(pattern, ","), "defaultCacheDuration": "1h", "apiVersion": plugin.V1})
		path := filepath.Join(s.dir, "bin", name)
		if _, err := os.Lstat(path); err != nil {
			must.Do(s.t, os.Symlink(self, path))
		}
	}
	data := must.Get(json.Marshal(map[string]any{"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": list}))(s.t)
	s.replaceConfig(data)
}

// replaceConfig replaces the configuration with a rename.
func (s *testService) replaceConfig(data []byte) {
	s.t.Helper()
	path := filepath.Join(s.dir, "config.json")
	must.Do(s.t, os.WriteFile(path+".new", data, 0o600))
	must.Do(s.t, os.Rename(path+".new", path))
}

func (s *testService) setPassword(password string) {
	s.t.Helper()
	must.Do(s.t, os.WriteFile(filepath.Join(s.dir, "password"), []byte(password), 0o600))
}

// holdPlugins makes plugins wait until release is called.
func (s *testService) holdPlugins() (release func()) {
	s.t.Helper()
	path := filepath.Join(s.dir, "wait")
	must.Do(s.t, os.WriteFile(path, nil, 0o600))
	release = sync.OnceFunc(func() { os.Remove(path) })
	s.t.Cleanup(release)
	return release
}

// start starts the service.
func (s *testService) start() *testService {
	s.t.Helper()
	must.Do(s.t, s.Start())
	l, unlock, err := Listen(s.socket, s.Allow)
	must.Do(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	s.stop = sync.OnceValue(func() error {
		cancel()
		defer unlock()
		return <-ended
	})
	s.t.Cleanup(func() {
		s.http.CloseIdleConnections()
		if err := s.stop(); err != nil {
			s.t.Error(err)
		}
		canary.AssertAbsent(s.t, "the log", s.log.String())
	})
	return s
}

// start is a helper for most tests.
func startService(t testing.TB, plugins ...string) *testService {
	t.Helper()
	return newTestService(t, plugins...).start()
}

func (s *testService) client() *client.Service { return &client.Service{Socket: s.socket} }

// runs returns the number of plugin runs.
func (s *testService) runs() int {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, "runs"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	return bytes.Count(data, []byte("\n"))
}

func (s *testService) awaitRuns(n int) {
	s.t.Helper()
	s.await(fmt.Sprintf("%d runs", n), func() bool { return s.runs() >= n })
}

func (s *testService) await(what string, done func() bool) {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); {
		if time.Now().After(end) {
			s.t.Fatalf("timed out: %s\n%s", what, s.log.String())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// do sends a request with any HTTP client, and returns the status and the body.
func (s *testService) do(method, path, body string, header ...string) (int, string) {
	s.t.Helper()
	req := must.Get(http.NewRequestWithContext(context.Background(), method, "http://localhost"+path, strings.NewReader(body)))(s.t)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp := must.Get(s.http.Do(req))(s.t)
	defer resp.Body.Close()
	return resp.StatusCode, string(must.Get(io.ReadAll(resp.Body))(s.t))
}

const requestV1 = `{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderRequest","image":"%s"}`

func (s *testService) credentials(image string) (int, string) {
	s.t.Helper()
	return s.do("POST", client.PathCredentials, fmt.Sprintf(requestV1, image))
}

// TestCredentials verifies the responses to a kubelet's request that names no entry and no provider.
func TestCredentials(t *testing.T) {
	s := startService(t, "a=r.example,part.example", "b=*.example", "none=n.test", "fails=f.test,part.example")
	for _, tt := range []struct {
		image  string
		status int
		want   string
	}{
		{"r.example/team/app", 200, `"cacheKeyType":"Image"`},
		{"n.test/app", 200, `"cacheKeyType":"Image","cacheDuration":"59.`},
		{"unknown.test/app", 200, `"cacheKeyType":"Image","cacheDuration":"0s"}`},
		{"f.test/app", 502, `{"error":"no credentials for f.test/app: plugin \"plugin-fails\": exec: exit status 1`},
		{"part.example/app", 200, `"username":"a"`},
		{"R:::x", 400, `{"error":`},
	} {
		status, body := s.credentials(tt.image)
		if status != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("%s: status %d, %s, want %d, %s", tt.image, status, body, tt.status, tt.want)
		}
	}
	for what, tt := range map[string]struct {
		body   string
		status int
	}{
		"no body":      {"", 400},
		"not JSON":     {"x", 400},
		"another kind": {`{"apiVersion":"v1","kind":"Pod"}`, 400},
		"too large":    {fmt.Sprintf(requestV1, strings.Repeat("x", maxRequestBody)), 413},
	} {
		if status, body := s.do("POST", client.PathCredentials, tt.body); status != tt.status || !strings.HasPrefix(body, `{"error":"`) {
			t.Errorf("%s: status %d, %s", what, status, body)
		}
	}
	if status, _ := s.do("GET", client.PathCredentials, ""); status != 405 {
		t.Errorf("GET: status %d", status)
	}
	if data := must.Get(os.ReadFile(filepath.Join(s.dir, "runs")))(t); strings.Count(string(data), client.SocketNone+"\n") != s.runs() {
		t.Errorf("plugins could call the service: %s", data)
	}
}

// TestClientCredentials verifies that the client gets the same response, and an error if a provider
// failed, even if another one returned a credential.
func TestClientCredentials(t *testing.T) {
	s := startService(t, "a=r.example,part.example", "fails=part.example")
	resp := must.Get(s.client().Credentials(t.Context(), client.Selector{}, &plugin.Request{APIVersion: plugin.V1, Image: "r.example/app"}))(t)
	if a := resp.Auth["r.example"]; a.Username != "a" || a.Password.Reveal() != canary.PasswordSecret {
		t.Errorf("got %+v", resp)
	}
	_, err := s.client().Credentials(t.Context(), client.Selector{}, &plugin.Request{APIVersion: plugin.V1, Image: "part.example/app"})
	if e, ok := errors.AsType[*client.StatusError](err); !ok || e.Status != 200 || e.Message != "1 of the providers failed" {
		t.Errorf("one of two failed: %v", err)
	}
}

// TestProvider verifies requests for a single provider: the client's configuration and plugin must be
// the service's. With NoCache, the plugin runs again.
func TestProvider(t *testing.T) {
	s := startService(t, "a=r.example")
	own := s.current.Load().snapshot.config.Providers[0]
	sel := client.Selector{Provider: own.Name, ProviderHash: client.ProviderHash(&own, filepath.Join(s.dir, "bin"))}
	req := &plugin.Request{APIVersion: plugin.V1, Image: "r.example/app"}
	for n, noCache := range []bool{false, false, true, false} {
		sel.NoCache = noCache
		resp := must.Get(s.client().Credentials(t.Context(), sel, req))(t)
		most := time.Hour // the plugin's duration
		if n == 1 || n == 3 {
			most = 5 * time.Minute // a cached response must not be kept longer than the maximum age
		}
		if resp.CacheKeyType != plugin.CacheRegistry || len(resp.Auth) != 1 || *resp.CacheDuration > most || *resp.CacheDuration < most-time.Minute {
			t.Errorf("%d: %+v", n, resp)
		}
	}
	if s.runs() != 2 {
		t.Errorf("%d runs, want 2", s.runs())
	}
	changed := own
	changed.Args = plugin.NewSecrets("--other")
	for what, sel := range map[string]client.Selector{
		"another plugin":        {Provider: own.Name, ProviderHash: client.ProviderHash(&own, "/usr/bin")},
		"another configuration": {Provider: own.Name, ProviderHash: client.ProviderHash(&changed, filepath.Join(s.dir, "bin"))},
		"no such provider":      {Provider: "b", ProviderHash: sel.ProviderHash},
		"another file":          {Config: "/etc/other.json"},
		"another directory":     {BinDir: "/usr/bin"},
		"a generation":          {Generation: "/var/lib/regcred/generations/1"},
		"an entry":              {Entry: "regcred-credential-provider"},
	} {
		_, err := s.client().Credentials(t.Context(), sel, req)
		if e, ok := errors.AsType[*client.StatusError](err); !ok || e.Status != http.StatusConflict {
			t.Errorf("%s: %v, want status 409", what, err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	must.Do(t, os.Symlink(s.dir, link))
	sel = client.Selector{Config: filepath.Join(s.dir, "config.json"), BinDir: filepath.Join(link, "bin")}
	must.Get(s.client().Credentials(t.Context(), sel, req))(t)
}

// TestLookup verifies the ordered credentials, the attempts, and the rejected requests.
func TestLookup(t *testing.T) {
	s := startService(t, "a=r.example", "b=r.example/team", "fails=f.test")
	found := must.Get(s.client().Lookup(t.Context(), client.Selector{}, client.LookupRequest{Image: "r.example/team/app"}))(t)
	var users []string
	for _, c := range found.Credentials {
		users = append(users, c.Username+" "+c.Match+" "+c.Provider)
	}
	if diff := cmp.Diff([]string{"a r.example plugin-a", "b r.example plugin-b"}, users); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if found := must.Get(s.client().Lookup(t.Context(), client.Selector{}, client.LookupRequest{Registry: "r.example"}))(t); len(found.Credentials) != 1 {
		t.Errorf("a registry: %d credentials", len(found.Credentials))
	}
	for body, want := range map[string]struct {
		status int
		text   string
	}{
		`{"image":"f.test/app"}`:             {502, `"stage":"exec"`},
		`{"image":"none.test/app"}`:          {200, `{"credentials":[],"attempts":[]}`},
		`{"server":"https://none.test/v1/"}`: {200, `{"credentials":[],"attempts":[]}`},
		`{}`:                                 {400, "exactly one of image, registry and server"},
		`{"image":"r.example/x","registry":"r.example"}`: {400, "exactly one of"},
		`{"image":"R:::x"}`:         {400, "error"},
		`{"image":1}`:               {400, "field image has the wrong type"},
		`{"images":"x"}`:            {400, "known fields"},
		`{"image":"r.example/x"}{}`: {400, "more than one JSON object"},
		`{"image":"r.example/x"}}`:  {400, "more than one JSON object"},
	} {
		if status, got := s.do("POST", client.PathLookup, body); status != want.status || !strings.Contains(got, want.text) {
			t.Errorf("%s: status %d, %s, want %d, %s", body, status, got, want.status, want.text)
		}
	}
}

// TestReport verifies that a refused credential is removed from the cache, and nothing else.
func TestReport(t *testing.T) {
	s := startService(t, "a=r.example")
	lookup := func() string {
		t.Helper()
		return must.Get(s.client().Lookup(t.Context(), client.Selector{}, client.LookupRequest{Image: "r.example/app"}))(t).Credentials[0].Password
	}
	old := lookup()
	s.setPassword("rotated")
	for _, tt := range []struct {
		password, outcome string
		status            int
		dropped           bool
		next              string
	}{
		{old, "accepted", 200, false, old},
		{"another", "refused", 200, false, old},
		{old, "unknown", 400, false, old},
		{old, "refused", 200, true, "rotated"},
	} {
		body := must.Get(json.Marshal(client.ReportRequest{Image: "r.example/app", Username: "a", Password: tt.password, Outcome: tt.outcome}))(t)
		status, got := s.do("POST", client.PathReport, string(body))
		if status != tt.status || strings.Contains(got, `"dropped":true`) != tt.dropped || strings.Contains(got, old) {
			t.Errorf("%+v: status %d, %s", tt, status, got)
		}
		if got := lookup(); got != tt.next {
			t.Errorf("%+v: the next password is %s", tt, got)
		}
	}
	if s.runs() != 2 {
		t.Errorf("%d runs, want 2", s.runs())
	}
}

// TestInterim verifies that a client gets interim responses while a plugin runs, and none if the
// response is cached or on /auth.
func TestInterim(t *testing.T) {
	s := startService(t, "a=*.example")
	interim := func(method, path, body string) (n int, first time.Duration) {
		start := time.Now()
		trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			if n++; n == 1 {
				first = time.Since(start)
			}
			if code != http.StatusProcessing {
				t.Errorf("status %d", code)
			}
			return nil
		}}
		req := must.Get(http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), method, "http://localhost"+path, strings.NewReader(body)))(t)
		resp := must.Get(s.http.Do(req))(t)
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Errorf("%s: status %d", path, resp.StatusCode)
		}
		return n, first
	}
	release := s.holdPlugins()
	time.AfterFunc(1500*time.Millisecond, release)
	n, first := interim("POST", client.PathCredentials, fmt.Sprintf(requestV1, "r.example/app"))
	if n < 2 || first > time.Second {
		t.Errorf("%d interim responses, the first after %v", n, first)
	}
	if n, _ := interim("POST", client.PathCredentials, fmt.Sprintf(requestV1, "r.example/other")); n > 0 {
		t.Logf("cached: %d interim responses; the machine is slow", n)
	}
	release = s.holdPlugins()
	time.AfterFunc(200*time.Millisecond, release)
	if n, _ := interim("GET", "/auth?remote_url=https://s.example/v2/app/blobs/sha256:1", ""); n > 0 {
		t.Errorf("/auth: %d interim responses", n)
	}
}

// TestDisconnect verifies that the plugin continues after its client has disconnected.
func TestDisconnect(t *testing.T) {
	s := startService(t, "a=r.example")
	release := s.holdPlugins()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		s.awaitRuns(1)
		cancel()
	}()
	if _, err := s.client().Lookup(ctx, client.Selector{}, client.LookupRequest{Image: "r.example/app"}); err == nil {
		t.Fatal("no error after the client was canceled")
	}
	s.await("the connection is closed", func() bool { return s.connections.count() == 0 })
	release()
	s.await("the lookup ends", func() bool { return s.lookups.count() == 0 })
	must.Get(s.client().Lookup(t.Context(), client.Selector{}, client.LookupRequest{Image: "r.example/app"}))(t)
	if s.runs() != 1 {
		t.Errorf("%d runs, want 1", s.runs())
	}
}

// TestOneExec verifies that many requests at the same time run one plugin.
func TestOneExec(t *testing.T) {
	s := startService(t, "a=r.example")
	release := s.holdPlugins()
	var wg sync.WaitGroup
	var failed sync.Map
	const n = 200
	for i := range n {
		wg.Go(func() {
			if status, body := s.credentials("r.example/app" + strconv.Itoa(i)); status != 200 || !strings.Contains(body, canary.PasswordSecret) {
				failed.Store(i, body)
			}
		})
	}
	s.await("all requests are waiting", func() bool { return s.lookups.count() == n })
	release()
	wg.Wait()
	failed.Range(func(k, v any) bool { t.Errorf("%v: %v", k, v); return true })
	if s.runs() != 1 {
		t.Errorf("%d runs, want 1", s.runs())
	}
}

// TestReload verifies that a changed configuration is loaded, that an invalid one is not used but is
// visible, and that unchanged providers keep their cached responses.
func TestReload(t *testing.T) {
	s := startService(t, "a=r.example")
	ready := func() (r readiness) {
		t.Helper()
		status, body := s.do("GET", "/readyz", "")
		must.Do(t, json.Unmarshal([]byte(body), &r))
		if status != 200 || !r.Ready {
			t.Errorf("status %d, %s", status, body)
		}
		return r
	}
	metric := func(line string) bool {
		_, body := s.do("GET", "/metrics", "")
		return strings.Contains(body, line+"\n")
	}
	s.credentials("r.example/app")
	first := ready()
	if first.ReloadError != "" || !metric("regcred_serve_last_reload_failed 0") || !metric(`kubelet_credential_provider_config_info{hash="`+first.ConfigHash+`"} 1`) {
		t.Errorf("at the start: %+v", first)
	}
	s.replaceConfig([]byte(`{"apiVersion":"kubelet.config.k8s.io/v1","kind":"Cred`))
	s.await("the error is visible", func() bool { return ready().ReloadError != "" })
	if now := ready(); now.ConfigHash != first.ConfigHash || !metric("regcred_serve_last_reload_failed 1") || !strings.Contains(s.log.String(), "the previous one is used") {
		t.Errorf("after an error: %+v\n%s", now, s.log.String())
	}
	if status, body := s.credentials("s.example/app"); status != 200 || strings.Contains(body, `"auth"`) {
		t.Errorf("with the previous configuration: status %d, %s", status, body)
	}
	s.writeConfig("a=r.example", "b=s.example")
	s.await("the new configuration is loaded", func() bool { return ready().ReloadError == "" && ready().ConfigHash != first.ConfigHash })
	if status, body := s.credentials("s.example/app"); status != 200 || !strings.Contains(body, `"username":"b"`) {
		t.Errorf("with the new configuration: status %d, %s", status, body)
	}
	s.credentials("r.example/app")
	if s.runs() != 2 {
		t.Errorf("%d runs, want one for each provider", s.runs())
	}
	must.Do(t, os.Remove(filepath.Join(s.dir, "config.json")))
	s.await("the deletion is visible", func() bool { return ready().ReloadError != "" })
	if status, body := s.credentials("r.example/app"); status != 200 || !strings.Contains(body, `"username":"a"`) {
		t.Errorf("after the deletion: status %d, %s", status, body)
	}
	if !metric(`kubelet_credential_provider_plugin_duration_count{plugin_name="plugin-a"} 1`) || metric(`kubelet_credential_provider_plugin_errors_total{plugin_name="plugin-a"} 1`) {
		t.Error("the kubelet's metrics are missing")
	}
}

// TestNotYetLoaded verifies that a service without a configuration runs, and loads it when it exists.
func TestNotYetLoaded(t *testing.T) {
	s := newTestService(t, "a=r.example")
	path := filepath.Join(s.dir, "config.json")
	must.Do(t, os.Rename(path, path+".later"))
	if err := s.Start(); err == nil {
		t.Fatal("no error without a configuration")
	}
	must.Do(t, os.MkdirAll(filepath.Dir(s.socket), 0o700))
	l := must.Get(replaceSocket(s.socket, 0o600))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	for _, path := range []string{"/readyz", "/auth?remote_url=https://r.example/v2/app/blobs/x"} {
		if status, body := s.do("GET", path, ""); status != 503 {
			t.Errorf("%s: status %d, %s", path, status, body)
		}
	}
	if status, body := s.credentials("r.example/app"); status != 503 || !strings.Contains(body, "no configuration has been loaded") {
		t.Errorf("status %d, %s", status, body)
	}
	if status, _ := s.do("GET", "/healthz", ""); status != 200 {
		t.Errorf("/healthz: status %d", status)
	}
	must.Do(t, os.Rename(path+".later", path))
	s.await("the configuration is loaded", func() bool { status, _ := s.do("GET", "/readyz", ""); return status == 200 })
	cancel()
	must.Do(t, <-ended)
}

// TestShutdown verifies that a stopping service finishes requests, and removes its socket.
func TestShutdown(t *testing.T) {
	s := startService(t, "a=r.example")
	release := s.holdPlugins()
	type result struct {
		status int
		body   string
	}
	got := make(chan result, 1)
	go func() {
		status, body := s.credentials("r.example/app")
		got <- result{status, body}
	}()
	s.awaitRuns(1)
	time.AfterFunc(300*time.Millisecond, release)
	must.Do(t, s.stop())
	if r := <-got; r.status != 200 {
		t.Errorf("status %d, %s", r.status, r.body)
	}
	if _, err := os.Lstat(s.socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket still exists: %v", err)
	}
}

// TestRawResponse verifies the bytes of a response, which clients without an HTTP library parse.
func TestRawResponse(t *testing.T) {
	s := startService(t, "a=r.example")
	c := must.Get(net.Dial("unix", s.socket))(t)
	defer c.Close()
	fmt.Fprintf(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	resp := must.Get(http.ReadResponse(bufio.NewReader(c), nil))(t)
	if resp.StatusCode != 200 || resp.ContentLength != 16 || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%+v", resp)
	}
}

// TestOutage verifies that a credential is refreshed before it expires, and that it is returned until
// then if the cloud is unreachable: 24 hours, of which the cloud is down for 20.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lifetime, downAt, upAt = 12 * time.Hour, 2 * time.Hour, 22 * time.Hour
		start, runs := time.Now(), 0
		o := (&Server{Source: Source{BinDir: "/bin"}, metrics: newMetrics(func() int { return 0 })}).keyringOptions()
		o.InProcess = map[string]plugin.Provider{"p": plugin.ProviderFunc(func(_ context.Context, req *plugin.Request) (*plugin.Response, error) {
			runs++
			if at := time.Since(start); at >= downAt && at < upAt {
				return nil, errors.New("no route to the cloud")
			}
			return &plugin.Response{CacheKeyType: plugin.CacheRegistry, CacheDuration: new(lifetime), Auth: map[string]plugin.AuthConfig{"r.example": {Username: "u", Password: plugin.NewSecret("p")}}}, nil
		})}
		cfg := &config.Config{Providers: []config.Provider{{Name: "p", APIVersion: plugin.V1, MatchImages: []string{"r.example"}, DefaultCacheDuration: new(time.Hour)}}}
		k := must.Get(regcred.New(cfg, o))(t)
		defer k.Close()
		for at := time.Duration(0); at <= 24*time.Hour; at += 5 * time.Minute {
			before := runs
			res, err := k.Lookup(t.Context(), regcred.Request{Image: "r.example/app"})
			synctest.Wait() // for a refresh
			_, failed := errors.AsType[*regcred.LookupError](err)
			expired := at > lifetime && at < upAt
			if failed != expired || !expired && len(res.Credentials) != 1 {
				t.Errorf("after %v: %v", at, err)
			}
			if runs-before > 1 || runs > before && at > 0 && at < lifetime-refreshAhead {
				t.Errorf("after %v: %d runs", at, runs-before)
			}
			time.Sleep(5 * time.Minute)
		}
	})
}
