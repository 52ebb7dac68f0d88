// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cmd_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/plugin"
)

// unusedAddr is an address without a listener.
const unusedAddr = "127.0.0.1:1"

// offlineEnviron returns the environment of a node without reachable servers. metadata is the
// address of all metadata servers.
func offlineEnviron(home, metadata string) []string {
	return []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "SystemRoot=" + os.Getenv("SystemRoot"),
		"AWS_EC2_METADATA_SERVICE_ENDPOINT=http://" + metadata, "GCE_METADATA_HOST=" + metadata,
		"AZURE_POD_IDENTITY_AUTHORITY_HOST=http://" + metadata,
		"HTTP_PROXY=http://" + unusedAddr, "HTTPS_PROXY=http://" + unusedAddr, "NO_PROXY=",
	}
}

// pluginInvocations returns, for each plugin, its arguments and an image for which the plugin must call a
// server. The image is empty if the plugin calls no server.
func pluginInvocations(t *testing.T) map[string]struct {
	args  []string
	image string
} {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	return map[string]struct {
		args  []string
		image string
	}{
		"ecr-credential-provider":          {nil, privateImage},
		"auth-provider-gcp":                {[]string{"get-credentials"}, "gcr.io/project/app"},
		"acr-credential-provider":          {[]string{write("azure.json", `{"useManagedIdentityExtension":true}`)}, "team.azurecr.io/app"},
		"token-credential-provider":        {[]string{"--registry=registry.example", "--username=jwt", "--audience=registry.example"}, ""},
		"dockerconfig-credential-provider": {[]string{"--config=" + write("config.json", `{}`)}, ""},
		"static-credential-provider":       {[]string{"--host=registry.example", "--username=u", "--password-file=" + write("password", canary.PasswordSecret)}, ""},
	}
}

// TestProtocol runs every plugin as a kubelet does, and verifies its errors.
func TestProtocol(t *testing.T) {
	bin := buildProgramsDir(t)
	t.Run("bad requests", func(t *testing.T) { testBadRequests(t, bin) })
	t.Run("nobody there", func(t *testing.T) { testUnreachableServers(t, bin) })
	t.Run("terminated", func(t *testing.T) { testTerminated(t, bin) })
}

// testBadRequests checks that each plugin rejects an invalid request with a one-line error and an
// empty standard output. The plugin must not call a server.
func testBadRequests(t *testing.T, bin string) {
	programs := pluginInvocations(t)
	if len(programs) != len(pluginPages) {
		t.Fatalf("%d programs, want %d", len(programs), len(pluginPages))
	}
	request := func(version, kind, rest string) string {
		return `{"apiVersion":"` + version + `","kind":"` + kind + `"` + rest + `}`
	}
	const image = `,"image":"registry.example/app"`
	for name, stdin := range map[string]string{
		"nothing":         "",
		"garbage":         canary.TokenSecret,
		"null":            "null",
		"half":            request(plugin.V1, protocol.KindRequest, image)[:40],
		"two":             request(plugin.V1, protocol.KindRequest, image) + "{}",
		"wrong kind":      request(plugin.V1, protocol.KindResponse, image),
		"no kind":         request(plugin.V1, "", image),
		"wrong version":   request("credentialprovider.kubelet.k8s.io/v2", protocol.KindRequest, image),
		"no version":      request("", protocol.KindRequest, image),
		"no image":        request(plugin.V1, protocol.KindRequest, ""),
		"empty image":     request(plugin.V1, protocol.KindRequest, `,"image":""`),
		"image a number":  request(plugin.V1, protocol.KindRequest, `,"image":1`),
		"other case":      request(plugin.V1, protocol.KindRequest, `,"Image":"registry.example/app"`),
		"more than a MiB": request(plugin.V1, protocol.KindRequest, image+`,"x":"`+strings.Repeat("x", 2<<20)+`"`),
	} {
		for called, how := range programs {
			t.Run(called+" "+name, func(t *testing.T) {
				cmd := exec.Command(programPath(bin, called), how.args...)
				cmd.Env = offlineEnviron(t.TempDir(), unusedAddr)
				checkFails(t, cmd, stdin)
			})
		}
	}
}

// testUnreachableServers checks each plugin's error if no server is reachable. The error must be one line,
// without the usage text and without repetition.
func testUnreachableServers(t *testing.T, bin string) {
	for called, how := range pluginInvocations(t) {
		if how.image == "" {
			continue
		}
		t.Run(called, func(t *testing.T) {
			cmd := exec.Command(programPath(bin, called), how.args...)
			cmd.Env = offlineEnviron(t.TempDir(), unusedAddr)
			stderr := checkFails(t, cmd, `{"apiVersion":"`+plugin.V1+`","kind":"`+protocol.KindRequest+`","image":"`+how.image+`"}`)
			if strings.Count(stderr, "connection refused") != 1 || strings.Contains(stderr, "Usage") {
				t.Errorf("got %q", stderr)
			}
		})
	}
}

// testTerminated checks that a plugin that waits for a response exits on SIGTERM, with an error
// that names the server.
func testTerminated(t *testing.T, bin string) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGTERM")
	}
	for called, how := range pluginInvocations(t) {
		if how.image == "" {
			continue
		}
		t.Run(called, func(t *testing.T) {
			var once sync.Once
			asked := make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				once.Do(func() { close(asked) })
				<-r.Context().Done()
			}))
			defer server.Close()
			defer server.CloseClientConnections()
			cmd := exec.Command(programPath(bin, called), how.args...)
			cmd.Env = offlineEnviron(t.TempDir(), server.Listener.Addr().String())
			cmd.Stdin = strings.NewReader(`{"apiVersion":"` + plugin.V1 + `","kind":"` + protocol.KindRequest + `","image":"` + how.image + `"}`)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			must.Do(t, cmd.Start())
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case <-asked:
				cmd.Process.Signal(syscall.SIGTERM)
				<-ended
			case <-ended:
				t.Error("it ended by itself")
			}
			if code := cmd.ProcessState.ExitCode(); code <= 0 || stdout.Len() > 0 || strings.Count(stderr.String(), "\n") != 1 {
				t.Errorf("exit code %d, %d bytes on standard output, standard error %q", code, stdout.Len(), &stderr)
			}
		})
	}
}

// checkFails runs a plugin that must fail, and returns its error.
func checkFails(t *testing.T, cmd *exec.Cmd, stdin string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	cmd.Run()
	canary.AssertAbsent(t, "standard error", stderr.String())
	name := strings.TrimSuffix(filepath.Base(cmd.Path), ".exe")
	if code := cmd.ProcessState.ExitCode(); code != 1 && code != 2 || stdout.Len() > 0 {
		t.Errorf("exit code %d, %d bytes on standard output", code, stdout.Len())
	}
	if said := stderr.String(); strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, name+": ") || strings.Contains(said, "panic") {
		t.Errorf("got %q, want one line that begins with the name", said)
	}
	return stderr.String()
}
