// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/pull"
	"github.com/regcred/regcred/internal/testcri"
	"github.com/regcred/regcred/internal/testregistry"
)

// TestRuntimeScripts runs scripts with a fake container runtime, whose socket is $SOCKET.
// simulateRegistry determines which images the runtime can pull.
func TestRuntimeScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/runtime",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			server := &testcri.Server{OnPullImage: simulateRegistry}
			server.Start(env.T().(testing.TB))
			env.Values["runtime"] = server
			env.Setenv("SOCKET", server.Socket)
			env.Setenv("HASH", strings.Repeat("0", 64))
			return setupScript(env)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":         scriptCode,
			"says":         scriptOutputContains,
			"cmpjson":      scriptCompareJSON,
			"startkubelet": scriptStartKubelet,
			"pulls":        scriptPulls,
		},
	})
}

// simulateRegistry responds to the runtime's pulls. Images with /open/ in the name can be pulled
// anonymously. Other images require a credential. Images with /none in the name do not exist.
func simulateRegistry(_ context.Context, req *runtimeapi.PullImageRequest) (string, error) {
	switch image := req.Image.Image; {
	case strings.Contains(image, "/open/"):
	case req.Auth.GetUsername() != "ci" || req.Auth.GetPassword() != canary.PasswordSecret:
		return "", testcri.UnauthorizedError(req)
	case strings.Contains(image, "/none"):
		return "", status.Errorf(codes.NotFound, "failed to resolve reference %q: not found", image)
	}
	return "sha256:" + strings.Repeat("0", 64), nil
}

// scriptPulls is the script command "pulls N". It checks the number of pull requests to the
// runtime.
func scriptPulls(ts *testscript.TestScript, neg bool, args []string) {
	server := ts.Value("runtime").(*testcri.Server)
	if got := fmt.Sprint(len(server.PullRequests())); got != args[0] {
		ts.Fatalf("%s pulls, want %s", got, args[0])
	}
}

// writeRuntimeConfig writes a configuration with a test plugin and returns the flags to
// use it.
func writeRuntimeConfig(t testing.TB, plugin string, hosts ...string) (flags []string) {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	must.Do(t, linkPlugins(bin))
	config := filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- {name: %s, matchImages: ["%s"], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1}
`, plugin, strings.Join(hosts, `", "`))
	must.Do(t, os.WriteFile(config, []byte(text), 0o600))
	return []string{"--config", config, "--bin-dir", bin, "--no-node-config"}
}

func writeImageList(t testing.TB, images ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "images.txt")
	must.Do(t, os.WriteFile(path, []byte(strings.Join(images, "\n")), 0o600))
	return path
}

// TestPrepullContainerd pulls from two registries into the real containerd.
func TestPrepullContainerd(t *testing.T) {
	containerd := testcri.StartContainerd(t)
	var images, hosts []string
	var registries []*testregistry.Server
	for _, auth := range []testregistry.Auth{testregistry.AuthBasic, testregistry.AuthBearer} {
		reg := must.Get(testregistry.New(testregistry.Options{Auth: auth, Users: map[string]string{"ci": canary.PasswordSecret}}))(t)
		t.Cleanup(func() { reg.Close() })
		for i := range 3 {
			repo := fmt.Sprintf("team/app%d", i)
			must.Get(reg.Push(repo, "v1", testregistry.Image{Seed: int64(i)}))(t)
			images = append(images, reg.Addr()+"/"+repo+":v1")
		}
		registries, hosts = append(registries, reg), append(hosts, reg.Addr())
	}
	args := append([]string{"prepull", "--runtime-endpoint", containerd.Socket, "-f", writeImageList(t, images...)}, writeRuntimeConfig(t, "good", hosts...)...)

	code, out, errOut := runApp(t, args...)
	if code != exitOK || strings.Count(out, `with provider good, user "ci"`) != 6 || !strings.Contains(out, "6 images: 6 pulled\n") {
		t.Errorf("first: exit code %d\n%s%s", code, out, errOut)
	}
	for _, reg := range registries {
		reg.ResetLog()
	}
	code, out, errOut = runApp(t, args...)
	if code != exitOK || !strings.Contains(out, "6 images: 6 present\n") {
		t.Errorf("second: exit code %d\n%s%s", code, out, errOut)
	}
	code, out, errOut = runApp(t, append(args, "--pull-policy", "Never")...)
	if code != exitOK || !strings.Contains(out, "6 images: 6 present\n") {
		t.Errorf("Never: exit code %d\n%s%s", code, out, errOut)
	}
	missing := writeImageList(t, hosts[0]+"/team/missing:v1")
	code, out, errOut = runApp(t, append(args, "-f", missing, "--pull-policy", "Never")...)
	if code != exitFailed || !strings.Contains(out, "the pull policy is Never") || strings.Contains(errOut, "explain") {
		t.Errorf("Never, not there: exit code %d\n%s%s", code, out, errOut)
	}
	if n := len(registries[0].Requests()) + len(registries[1].Requests()); n != 0 {
		t.Errorf("%d requests for what is there, want none", n)
	}
	registries[0].SetUser("ci", canary.TokenSecret)
	code, out, errOut = runApp(t, append(args, "--pull-policy", "Always")...)
	canary.AssertAbsent(t, "output", out+errOut)
	if code != exitFailed || !strings.Contains(out, "6 images: 3 pulled, 3 failed\n") || strings.Count(out, "401 Unauthorized") != 3 {
		t.Errorf("Always, with a password that was changed: exit code %d\n%s%s", code, out, errOut)
	}
}

// TestPrepullParallel checks that three images are pulled at the same time. Each pull waits for two
// other pulls, so that fewer parallel pulls would time out.
func TestPrepullParallel(t *testing.T) {
	const n = 3
	var mu sync.Mutex
	waiting, turn := 0, make(chan struct{})
	server := &testcri.Server{OnPullImage: func(ctx context.Context, _ *runtimeapi.PullImageRequest) (string, error) {
		mu.Lock()
		mine := turn
		if waiting++; waiting == n {
			waiting, turn = 0, make(chan struct{})
			close(mine)
		}
		mu.Unlock()
		select {
		case <-mine:
			return "sha256:x", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}}
	server.Start(t)
	var images []string
	for i := range 2 * n {
		images = append(images, fmt.Sprintf("registry.example/app%d:v1", i))
	}
	args := append([]string{"prepull", "--runtime-endpoint", server.Socket, "--parallel", fmt.Sprint(n), "--timeout", "20s", "-f", writeImageList(t, images...)}, writeRuntimeConfig(t, "good", "registry.example")...)
	if code, out, errOut := runApp(t, args...); code != exitOK {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
}

// TestPrepullInterrupted checks that an interrupted run reports finished pulls and does not start
// the remaining ones.
func TestPrepullInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := &testcri.Server{}
	server.OnPullImage = func(ctx context.Context, req *runtimeapi.PullImageRequest) (string, error) {
		if strings.HasSuffix(req.Image.Image, "2:v1") {
			cancel()
			<-ctx.Done()
			return "", ctx.Err()
		}
		return "sha256:x", nil
	}
	server.Start(t)
	var images []string
	for i := range 5 {
		images = append(images, fmt.Sprintf("registry.example/app%d:v1", i))
	}
	args := append([]string{"prepull", "--runtime-endpoint", server.Socket, "--parallel", "1", "-f", writeImageList(t, images...)}, writeRuntimeConfig(t, "good", "registry.example")...)
	var out, errOut strings.Builder
	code := run(ctx, args, strings.NewReader(""), &out, &errOut, os.Environ())
	if code != exitFailed || errOut.String() != "error: interrupted\n" {
		t.Errorf("exit code %d: %s", code, errOut.String())
	}
	for _, want := range []string{
		"ok      registry.example/app1:v1: pulled", "skipped registry.example/app2:v1: interrupted\n",
		"\nerror   5 images: 2 pulled, 1 interrupted, 2 not begun\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "app3") {
		t.Errorf("an image that was not begun has a line in\n%s", out.String())
	}
	if n := len(server.PullRequests()); n != 3 {
		t.Errorf("%d pulls, want 3", n)
	}
}

// blockingReader is a reader that blocks, like a terminal without input.
type blockingReader struct {
	onRead   func()
	released chan struct{}
	returned atomic.Bool
}

func (r *blockingReader) Read([]byte) (int, error) {
	r.onRead()
	select {
	case <-r.released:
	case <-time.After(5 * time.Second): // fail instead of hanging
	}
	r.returned.Store(true)
	return 0, io.EOF
}

// TestPrepullInterruptedList checks that an interrupt ends the reading of the list
// immediately.
func TestPrepullInterruptedList(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stdin := &blockingReader{onRead: cancel, released: make(chan struct{})}
	defer close(stdin.released)
	var out, errOut strings.Builder
	code := run(ctx, append([]string{"prepull", "-f", "-"}, writeRuntimeConfig(t, "good", "registry.example")...), stdin, &out, &errOut, os.Environ())
	if code != exitFailed || errOut.String() != "error: interrupted\n" || stdin.returned.Load() {
		t.Errorf("exit code %d, list read to its end: %t: %s", code, stdin.returned.Load(), errOut.String())
	}
}

// TestPrepullRuntimeGone checks that the remaining images are not pulled if the runtime stops
// permanently.
func TestPrepullRuntimeGone(t *testing.T) {
	server := &testcri.Server{}
	server.OnPullImage = func(ctx context.Context, _ *runtimeapi.PullImageRequest) (string, error) {
		go server.Stop()
		<-ctx.Done()
		return "", ctx.Err()
	}
	server.Start(t)
	r, err := pull.DialRuntime(t.Context(), server.Socket, pull.RuntimeOptions{ReconnectTimeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out, errOut strings.Builder
	p := newPullRun(newApp(nil, &out, &errOut, nil), &commonPullFlags{parallel: 1, output: &enumFlag{value: "text"}, lookupFlags: &lookupFlags{}}, &lookupSession{Keyring: newTestKeyring(t)})
	p.pullInto = newRuntimePuller(r, pull.PullAlways)
	err = p.pullAll(t.Context(), &pullReport{}, []string{"a.example/a:v1", "a.example/b:v1", "a.example/c:v1"})
	if err == nil || err.Error() != "3 of 3 images not pulled" {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(out.String(), "error   a.example/a:v1: anonymous: lost the connection to the container runtime") || !strings.Contains(out.String(), "3 images: 1 failed, 2 not begun") {
		t.Errorf("said\n%s", out.String())
	}
}

// newTestKeyring returns a keyring with one provider, which matches none of the images in these
// tests.
func newTestKeyring(t *testing.T) *regcred.Keyring {
	t.Helper()
	flags := writeRuntimeConfig(t, "good", "elsewhere.example")
	cfg := must.Get(config.Load(flags[1]))(t)
	k := must.Get(regcred.New(cfg, regcred.Options{BinDir: flags[3]}))(t)
	t.Cleanup(func() { k.Close() })
	return k
}

func TestReadImages(t *testing.T) {
	images, err := readImages(t.Context(), "-", strings.NewReader("\ufeff# base\r\n\r\nnginx\r\n  registry.example/a:v1 # why\n#registry.example/b\ndocker.io/library/nginx:latest\nregistry.example/c"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"nginx", "registry.example/a:v1", "registry.example/c"}, images); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, tt := range []struct{ list, want string }{
		{"a/b\nA:B:C\n", `standard input:2: image "A:B:C": not an image reference: invalid reference format`},
		{"a b\n", `standard input:1: image "a b": not an image reference`},
		{strings.Repeat("?\n", 25), "standard input: invalid images on another 15 lines"},
		{strings.Repeat("x\n", maxImageListSize/2+1), "-f: standard input is larger than 4.0 MiB"},
	} {
		_, err := readImages(t.Context(), "-", strings.NewReader(tt.list))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.20q: got %v, want %q in it", tt.list, err, tt.want)
		}
	}
}
