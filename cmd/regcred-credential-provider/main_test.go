// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package main

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/runstats"
	"github.com/regcred/regcred/internal/testelf"
	"github.com/regcred/regcred/plugin"
)

// TestMain makes the test binary run as the dispatcher or a provider if it is called by that name.
func TestMain(m *testing.M) {
	name := filepath.Base(os.Args[0])
	switch {
	case strings.HasSuffix(name, ".test"):
	case strings.HasPrefix(name, generation.DispatcherName):
		version = "v1.2.3-test"
		main()
	case strings.HasPrefix(name, "plugin-"):
		os.Exit(runProvider(strings.TrimPrefix(name, "plugin-")))
	}
	os.Exit(m.Run())
}

// runProvider runs as a provider. The user name of its credential is how, followed by the
// generation.
func runProvider(how string) int {
	how, _, _ = strings.Cut(how, "_")
	return plugin.Serve(context.Background(), plugin.ProviderFunc(func(_ context.Context, req *plugin.Request) (*plugin.Response, error) {
		user := how + os.Getenv("GENERATION")
		switch how {
		case "fails":
			return nil, errors.New("no route to " + req.ServiceAccountToken.Reveal())
		case "none":
			return &plugin.Response{CacheKeyType: plugin.CacheImage}, nil
		case "hangs":
			return nil, hangWithChild()
		case "token":
			user = fmt.Sprintf("token %t, annotations %q", !req.ServiceAccountToken.IsZero(), req.ServiceAccountAnnotations)
		case "huge":
			user = strings.Repeat("u", 1<<20-400)
		}
		return &plugin.Response{
			CacheKeyType: plugin.CacheRegistry, CacheDuration: new(time.Hour),
			Auth: map[string]plugin.AuthConfig{req.Registry(): {Username: user, Password: plugin.NewSecret(canary.PasswordSecret)}},
		}, nil
	}), plugin.ServeOptions{Name: how, Args: []string{}})
}

// hangWithChild starts a child process, reports both process IDs, and does not return.
func hangWithChild() error {
	child := exec.Command("sleep", "600")
	if err := child.Start(); err != nil {
		return err
	}
	f, err := os.OpenFile(os.Getenv("REPORT"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	fmt.Fprintf(f, "%d %d\n", os.Getpid(), child.Process.Pid)
	f.Close()
	select {}
}

// testNode is a state directory, a bin directory with links to the dispatcher, and the path of the counters.
type testNode struct {
	testing.TB
	store       generation.Store
	bin, counts string
	self        string
	environ     []string
}

func newNode(t *testing.T) *testNode {
	t.Helper()
	self := must.Get(os.Executable())(t)
	dir := t.TempDir()
	n := &testNode{t, generation.Store{Dir: filepath.Join(dir, "state")}, filepath.Join(dir, "bin"), filepath.Join(dir, "run"), self, []string{"GORACE=atexit_sleep_ms=0"}}
	n.requireNoError(errors.Join(os.MkdirAll(n.bin, 0o755), os.MkdirAll(n.store.Dir, 0o700)))
	if testing.CoverMode() != "" { // otherwise each process prints a warning about coverage
		n.environ = append(n.environ, "GOCOVERDIR="+t.TempDir())
	}
	dispatcher := n.store.Path(generation.DispatcherName)
	n.requireNoError(os.Link(self, dispatcher))
	for _, name := range []string{entries.DispatcherName, entries.DispatcherName + "-2"} {
		n.requireNoError(os.Symlink(dispatcher, filepath.Join(n.bin, name)))
	}
	return n
}

func (n *testNode) requireNoError(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

// newProvider returns a provider for r.example.
func newProvider(name string, tokens *config.TokenAttributes) config.Provider {
	return config.Provider{Name: name, MatchImages: []string{"r.example"}, DefaultCacheDuration: new(time.Minute), APIVersion: plugin.V1, TokenAttributes: tokens}
}

// tokenAttributes holds the tokenAttributes of the second entry.
var tokenAttributes = &config.TokenAttributes{
	ServiceAccountTokenAudience: "registry", CacheType: config.CachePerToken, RequireServiceAccount: new(true),
	OptionalServiceAccountAnnotationKeys: []string{"example.com/role"},
}

// createGeneration creates a generation of providers.
func (n *testNode) createGeneration(providers ...config.Provider) *generation.Manifest {
	n.Helper()
	numbers, err := n.store.ListNumbers()
	n.requireNoError(err)
	number := len(numbers) + 1
	m := &generation.Manifest{MaxStale: generation.Duration(5 * time.Minute), Entries: []entries.Entry{
		{Name: entries.DispatcherName, MatchImages: []string{"r.example"}, APIVersion: plugin.V1},
		{Name: entries.DispatcherName + "-2", MatchImages: []string{"r.example"}, APIVersion: plugin.V1, TokenAttributes: tokenAttributes},
	}}
	var list []map[string]any
	var content []generation.SourceFile
	for _, p := range providers {
		entry := map[string]any{"name": p.Name, "matchImages": p.MatchImages, "defaultCacheDuration": p.DefaultCacheDuration.String(), "apiVersion": p.APIVersion,
			"env": []map[string]string{{"name": "GENERATION", "value": strconv.Itoa(number)}}}
		if p.TokenAttributes != nil {
			entry["tokenAttributes"] = p.TokenAttributes
		}
		list = append(list, entry)
		content = append(content, generation.SourceFileFromBytes(generation.ExecutablePath(p.Name), 0o755, []byte("placeholder")))
	}
	data, err := json.Marshal(map[string]any{"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": list})
	n.requireNoError(err)
	n.requireNoError(n.store.Create(n.Context(), m, append(content, generation.SourceFileFromBytes(generation.ConfigFilePath("providers.json"), 0o600, data)), nil))
	for _, p := range providers {
		path := n.store.GenerationPath(m.Number, generation.ExecutablePath(p.Name))
		n.requireNoError(errors.Join(os.Remove(path), os.Link(n.self, path)))
	}
	return m
}

// activateProviders creates a generation of providers and makes it the current one.
func (n *testNode) activateProviders(providers ...config.Provider) {
	n.Helper()
	n.requireNoError(n.store.Activate(n.createGeneration(providers...).Number))
}

// dispatcherCommand runs the dispatcher as a kubelet does.
func (n *testNode) dispatcherCommand(name string) plugin.Command {
	return plugin.Command{
		Path: filepath.Join(n.bin, name), Args: plugin.NewSecrets("--count-dir=" + n.counts), Environ: n.environ, Dir: "/", APIVersion: plugin.V1,
	}
}

func (n *testNode) getCredentials() (*plugin.Response, error) {
	return n.dispatcherCommand(entries.DispatcherName).GetCredentials(n.Context(), &plugin.Request{Image: "r.example/team/app"})
}

// responseUsers returns the sorted user names of a response.
func responseUsers(resp *plugin.Response) (list []string) {
	if resp == nil {
		return nil
	}
	for _, a := range resp.Auth {
		list = append(list, a.Username)
	}
	slices.Sort(list)
	return list
}

// TestVersions verifies that the response has the request's version. After another generation is
// activated, the response comes from that generation.
func TestVersions(t *testing.T) {
	n := newNode(t)
	n.activateProviders(newProvider("plugin-a", nil), newProvider("plugin-b", nil), newProvider("plugin-t", tokenAttributes))
	for _, v := range []string{plugin.V1, plugin.V1Beta1, plugin.V1Alpha1} {
		c := n.dispatcherCommand(entries.DispatcherName)
		c.APIVersion = v
		resp, err := c.GetCredentials(t.Context(), &plugin.Request{Image: "r.example/team/app"})
		if err != nil || !slices.Equal(responseUsers(resp), []string{"a1", "b1"}) || resp.CacheKeyType != plugin.CacheImage || *resp.CacheDuration != 5*time.Minute {
			t.Errorf("%s: %v, %v", v, responseUsers(resp), err)
		}
	}
	n.activateProviders(newProvider("plugin-b", nil))
	resp, err := n.getCredentials()
	if err != nil || !slices.Equal(responseUsers(resp), []string{"b2"}) || resp.CacheKeyType != plugin.CacheRegistry {
		t.Errorf("%v, %v", responseUsers(resp), err)
	}
	counts, err := runstats.Read(t.Context(), n.counts)
	if err != nil || counts.Runs[runstats.RunSucceeded] != 4 || counts.Providers["plugin-b"].Results[runstats.ResultFound] != 4 || counts.Providers["plugin-a"].Runs != 3 {
		t.Errorf("counted: %+v, %v", counts, err)
	}
}

// TestTokens verifies that a token is passed to the providers in its entry, with the annotations they require.
func TestTokens(t *testing.T) {
	n := newNode(t)
	n.activateProviders(newProvider("plugin-token_a", nil), newProvider("plugin-token_b", tokenAttributes))
	payload := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"aud":["registry"],"fill":%q}`, strings.Repeat("x", 40_000))) // a large token
	req := &plugin.Request{Image: "r.example/app", ServiceAccountToken: plugin.NewSecret("e30." + payload + ".c2ln"),
		ServiceAccountAnnotations: map[string]string{"example.com/role": "puller", "example.com/other": "secret"}}
	for name, want := range map[string]string{
		entries.DispatcherName:        `token false, annotations map[]`,
		entries.DispatcherName + "-2": `token true, annotations map["example.com/role":"puller"]`,
	} {
		resp, err := n.dispatcherCommand(name).GetCredentials(t.Context(), req)
		if err != nil || !slices.Equal(responseUsers(resp), []string{want}) {
			t.Errorf("%s: %q, %v; want %q", name, responseUsers(resp), err, want)
		}
	}
}

// TestFails verifies that one line lists every failure without secrets, and that the other
// providers' credentials are still returned.
func TestFails(t *testing.T) {
	n := newNode(t)
	n.activateProviders(newProvider("plugin-none", nil), newProvider("plugin-fails_a", nil), newProvider("plugin-fails_b", nil))
	_, err := n.getCredentials()
	failed, ok := errors.AsType[*plugin.ExecError](err)
	if !ok || failed.ExitCode != 1 || strings.Count(failed.Stderr, "\n") != 1 || !strings.Contains(failed.Stderr, "plugin-fails_a") || !strings.Contains(failed.Stderr, "plugin-fails_b") {
		t.Errorf("got %v", err)
	}
	counts, err := runstats.Read(t.Context(), n.counts)
	if err != nil || counts.Runs[runstats.RunFailed] != 1 || counts.LastError == nil || counts.Providers["plugin-fails_a"].LastError.Stage != "exec" || counts.Providers["plugin-none"].Results[runstats.ResultNone] != 1 {
		t.Errorf("counted: %+v, %v", counts, err)
	}
	n.activateProviders(newProvider("plugin-fails", nil), newProvider("plugin-a", nil))
	resp, err := n.getCredentials()
	if err != nil || !slices.Equal(responseUsers(resp), []string{"a2"}) || *resp.CacheDuration != 0 {
		t.Errorf("%v, %v", responseUsers(resp), err)
	}
}

// TestFaults verifies that a broken node or plugin is reported in one line with a fix, and that no credential is
// returned.
func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(n *testNode)
		entry string
		want  string // "" if there is a response
	}{
		{"no generation", func(n *testNode) { n.requireNoError(n.store.Deactivate()) }, "", "current does not exist, so this node has no generation"},
		{"link to nothing", func(n *testNode) { n.requireNoError(n.store.Activate(7)) }, "", "current points to generation 7, which cannot be opened"},
		{"generation deleted", func(n *testNode) { n.requireNoError(os.RemoveAll(n.store.GenerationPath(1))) }, "", "regcred status"},
		{"manifest broken", func(n *testNode) { n.writeFile(n.store.GenerationPath(1, "manifest.json"), "{") }, "", "manifest.json is damaged"},
		{"manifest of later", func(n *testNode) { n.writeFile(n.store.GenerationPath(1, "manifest.json"), `{"schemaVersion":99}`) }, "", "schemaVersion 99"},
		{"record of entries broken", func(n *testNode) { n.writeFile(n.store.Path(generation.AppliedFile), "[{") }, "", ""},
		{"no record of entries, and another entry", func(n *testNode) {
			n.requireNoError(os.Mkdir(n.store.Path(generation.AppliedFile), 0o700))
			n.requireNoError(os.Rename(filepath.Join(n.bin, entries.DispatcherName), filepath.Join(n.bin, entries.DispatcherName+"-7")))
		}, entries.DispatcherName + "-7", "applied.json: is a directory, not a regular file"},
		{"a directory for the record of entries", func(n *testNode) { n.requireNoError(os.Mkdir(n.store.Path(generation.AppliedFile), 0o700)) }, "", ""},
		{"no such entry", func(n *testNode) {
			n.requireNoError(os.Rename(filepath.Join(n.bin, entries.DispatcherName), filepath.Join(n.bin, entries.DispatcherName+"-7")))
		}, entries.DispatcherName + "-7", `no entry named "regcred-credential-provider-7", the name that this program was run as; regcred status`},
		{"plugin deleted", func(n *testNode) { n.requireNoError(os.Remove(n.store.GenerationPath(1, generation.ExecutablePath("plugin-a")))) }, "", "no such file or directory"},
		{"plugin of another machine", func(n *testNode) {
			path := n.store.GenerationPath(1, generation.ExecutablePath("plugin-a"))
			n.requireNoError(os.Remove(path))
			n.requireNoError(os.WriteFile(path, testelf.BuildFile(t, elf.ELFCLASS64, binary.LittleEndian, elf.EM_S390, ""), 0o755))
		}, "", "built for another architecture"},
		{"no home, no directory, no place to count", func(n *testNode) {
			n.environ = nil
			n.writeFile(n.counts, "in the way")
		}, "", ""},
		{"a pipe where it counts", func(n *testNode) {
			n.requireNoError(errors.Join(os.Mkdir(n.counts, 0o700), syscall.Mkfifo(filepath.Join(n.counts, "providers.json"), 0o600)))
		}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.activateProviders(newProvider("plugin-a", nil))
			tt.spoil(n)
			if tt.entry == "" {
				tt.entry = entries.DispatcherName
			}
			resp, err := n.dispatcherCommand(tt.entry).GetCredentials(t.Context(), &plugin.Request{Image: "r.example/app"})
			failed, _ := errors.AsType[*plugin.ExecError](err)
			switch {
			case tt.want == "" && (err != nil || len(resp.Auth) != 1):
				t.Errorf("got %v", err)
			case tt.want != "" && (failed == nil || failed.ExitCode != 1 || !strings.Contains(failed.Stderr, tt.want) || strings.Count(failed.Stderr, "\n") != 1):
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func (n *testNode) writeFile(path, text string) {
	n.Helper()
	n.requireNoError(os.WriteFile(path, []byte(text), 0o600))
}

// TestHugeAnswer verifies that the largest allowed plugin response is returned.
func TestHugeAnswer(t *testing.T) {
	n := newNode(t)
	n.activateProviders(newProvider("plugin-huge", nil))
	c := n.dispatcherCommand(entries.DispatcherName)
	c.MaxOutput = 8 << 20
	resp, err := c.GetCredentials(t.Context(), &plugin.Request{Image: "r.example/app"})
	if err != nil || len(responseUsers(resp)[0]) < 1<<20-400 {
		t.Errorf("%v", err)
	}
}

// TestWithoutStreams verifies that the dispatcher changes no file in its state directory if its
// streams are closed or its working directory is deleted.
func TestWithoutStreams(t *testing.T) {
	n := newNode(t)
	n.activateProviders(newProvider("plugin-a", nil))
	request, err := plugin.EncodeRequest(&plugin.Request{APIVersion: plugin.V1, Image: "r.example/app"})
	n.requireNoError(err)
	before := n.listStateFiles()
	gone := t.TempDir()
	for _, script := range []string{`exec "$0" >&-`, `exec "$0" >&- 2>&-`, `cd ` + gone + ` && rmdir ` + gone + ` && exec "$0"`} {
		cmd := exec.Command("sh", "-c", script+" --count-dir=", filepath.Join(n.bin, entries.DispatcherName))
		cmd.Env, cmd.Stdin = []string{"PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}, bytes.NewReader(request)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", script, err, out)
		}
	}
	if after := n.listStateFiles(); !slices.Equal(before, after) {
		t.Errorf("files before %v, after %v", before, after)
	}
}

// listStateFiles lists the files of the state directory with their sizes.
func (n *testNode) listStateFiles() (list []string) {
	n.requireNoError(filepath.WalkDir(n.store.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		list = append(list, fmt.Sprint(path, info.Size(), info.Mode()))
		return err
	}))
	return list
}

// TestSignalKillsPlugin verifies that a signal or a timeout ends the plugin and its child processes before the program exits.
func TestSignalKillsPlugin(t *testing.T) {
	n := newNode(t)
	fifo := filepath.Join(t.TempDir(), "report")
	n.requireNoError(syscall.Mkfifo(fifo, 0o600))
	n.environ = append(n.environ, "REPORT="+fifo, "PATH="+os.Getenv("PATH"))
	n.activateProviders(newProvider("plugin-hangs", nil))
	var stderr bytes.Buffer
	request, err := plugin.EncodeRequest(&plugin.Request{APIVersion: plugin.V1, Image: "r.example/app"})
	n.requireNoError(err)
	c := n.dispatcherCommand(entries.DispatcherName)
	cmd := &exec.Cmd{Path: c.Path, Args: []string{c.Path, c.Args[0].Reveal()}, Env: c.Environ, Stdin: bytes.NewReader(request), Stderr: &stderr}
	n.requireNoError(cmd.Start())
	report, err := os.ReadFile(fifo) // blocks until the plugin has written
	n.requireNoError(err)
	n.requireNoError(cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%v: %s", err, stderr.String())
	}
	for _, word := range strings.Fields(string(report)) {
		pid, err := strconv.Atoi(word)
		n.requireNoError(err)
		if !waitUntilExited(pid) {
			t.Errorf("process %d of the plugin is still there; %s", pid, stderr.String())
		}
	}
}

// waitUntilExited waits until a killed process has exited or is a zombie.
func waitUntilExited(pid int) bool {
	for range 200 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// TestGenerationSwitches starts a hundred concurrent runs while the current generation changes.
// Each run must return the response of one generation. Killed runs must leave nothing that affects
// other runs.
func TestGenerationSwitches(t *testing.T) {
	const rounds, atOnce = 3, 100
	n := newNode(t)
	n.activateProviders(newProvider("plugin-a", nil))
	second := n.createGeneration(newProvider("plugin-b", nil)).Number
	ctx, stop := context.WithCancel(t.Context())
	flips := 0
	var flipper, askers sync.WaitGroup
	flipper.Go(func() {
		for ctx.Err() == nil || flips < 1000 {
			if err := n.store.Activate(1 + flips%2*(second-1)); err != nil {
				t.Error(err)
				return
			}
			flips++
		}
	})
	for i := range rounds * atOnce {
		askers.Go(func() {
			if i%10 == 9 { // killed at a random moment
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
				defer cancel()
				_, _ = n.dispatcherCommand(entries.DispatcherName).GetCredentials(ctx, &plugin.Request{Image: "r.example/app"})
				return
			}
			resp, err := n.getCredentials()
			if got := responseUsers(resp); err != nil || len(got) != 1 || got[0] != "a1" && got[0] != "b2" {
				t.Errorf("%v, %v", got, err)
			}
		})
		if i%atOnce == atOnce-1 {
			askers.Wait()
		}
	}
	stop()
	flipper.Wait()
	if _, err := n.getCredentials(); err != nil {
		t.Error(err)
	}
	counts, err := runstats.Read(t.Context(), n.counts)
	n.requireNoError(err)
	t.Logf("%d flips; %d runs counted, %d dropped", flips, counts.Runs[runstats.RunSucceeded], counts.DroppedBatches)
	if all := counts.Runs[runstats.RunSucceeded] + counts.Runs[runstats.RunFailed] + counts.DroppedBatches; all < rounds*atOnce*9/10+1 || all > rounds*atOnce+1 {
		t.Errorf("%d of %d runs were counted or dropped; those killed may be missing", all, rounds*atOnce+1)
	}
}
