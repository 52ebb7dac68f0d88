// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cmd_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
)

// TestOldProtocol runs every plugin with the current protocol and with the out-of-tree proposal's
// protocol. The plugins call fake clouds on loopback.
func TestOldProtocol(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux does a Go program take its authorities from SSL_CERT_FILE")
	}
	bin := buildProgramsDir(t)
	for _, p := range pullCases {
		t.Run(p.plugin, func(t *testing.T) {
			w := newTestEnv(t, p.host, p.user)
			p.prepare(t, w)
			testBothProtocols(t, w, programPath(bin, p.plugin))
		})
	}
	t.Run("example", func(t *testing.T) { testProposalExample(t, bin) })
}

func newTestEnv(t *testing.T, host, user string) *testEnv {
	t.Helper()
	net := must.Get(testcloud.NewFakeNetwork())(t)
	t.Cleanup(func() {
		if strays := net.UnknownHosts(); len(strays) > 0 {
			t.Errorf("another host was called: %q", strays)
		}
		net.Close()
	})
	return &testEnv{dir: t.TempDir(), net: net, host: host, user: user}
}

// testBothProtocols verifies that a plugin returns the same credential and cache duration in both
// protocols. The argument get-credentials is accepted before and after the flags.
func testBothProtocols(t *testing.T, w *testEnv, path string) {
	args := slices.DeleteFunc(slices.Clone(w.args), func(arg string) bool { return arg == "get-credentials" })
	cmd := plugin.Command{
		Path: path, Args: plugin.NewSecrets(args...), Dir: w.dir, APIVersion: plugin.V1, Timeout: time.Minute,
		Environ: slices.Concat(w.net.Environ(), w.env, []string{"HOME=" + w.dir}),
	}
	old := cmd
	old.APIVersion = plugin.OutOfTree
	image := w.host + "/team/app"
	got, err := old.GetCredentials(t.Context(), &plugin.Request{Image: image})
	if w.entry != "" { // the plugin serves only service accounts, which the out-of-tree proposal does not support
		if failed, ok := errors.AsType[*plugin.ExecError](err); !ok || failed.Stage != plugin.StageExec || !strings.Contains(failed.Stderr, "token") {
			t.Errorf("got %v, want it to miss a token", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	want := must.Get(cmd.GetCredentials(t.Context(), &plugin.Request{Image: image}))(t)
	login := plugin.AuthConfig{Username: w.user, Password: plugin.NewSecret(password)}
	if today := want.Auth[w.host]; !today.Equal(login) {
		t.Errorf("today's response has %v under %s, want %v", today, w.host, login)
	}
	if !cmp.Equal(got.Auth, map[string]plugin.AuthConfig{image: login}) {
		t.Errorf("the old response has %v, want %v under %s", got.Auth, login, image)
	}
	if kept := *want.CacheDuration - *got.CacheDuration; kept < 0 || kept > time.Minute {
		t.Errorf("the old response may be kept for %v, today's for %v", *got.CacheDuration, *want.CacheDuration)
	}
	programArgument(t, cmd, image)
}

// programArgument checks that the current protocol ignores the argument get-credentials, and that the
// old protocol requires it.
func programArgument(t *testing.T, cmd plugin.Command, image string) {
	given := cmd
	given.Args = append(plugin.NewSecrets("get-credentials"), cmd.Args...)
	if _, err := given.GetCredentials(t.Context(), &plugin.Request{Image: image}); err != nil {
		t.Errorf("today's protocol, with get-credentials: %v", err)
	}
	stdin := `{"image":"` + image + `"}`
	x, err := cmd.RunRaw(t.Context(), strings.NewReader(stdin))
	if err == nil || x.ExitCode != 2 || !x.Stdout.IsZero() {
		t.Errorf("the old protocol, without get-credentials: exit code %d and %d bytes (%v), want it refused", x.ExitCode, len(x.Stdout.Reveal()), err)
	}
	behind := cmd
	behind.APIVersion, behind.Args = "", append(plugin.NewSecrets("--v=0", "get-credentials"), cmd.Args...)
	x, err = behind.RunRaw(t.Context(), strings.NewReader(stdin))
	if err != nil || !strings.Contains(x.Stdout.Reveal(), protocol.KindOutOfTreeResponse) {
		t.Errorf("the old protocol, with a flag before get-credentials: %v, want a response in it", err)
	}
}

// proposalExample is the configuration in the document "Out-of-Tree Credential Providers". Its two
// patterns are quoted here, because the original is invalid YAML.
const proposalExample = `kind: credentialprovider
apiVersion: v1alpha1
providers:
-
  name: ecr-creds
  imageMatchers:
  - "*.dkr.ecr.*.amazonaws.com"
  - "*.dkr.ecr.*.amazonaws.com.cn"
  extraArgs:
    region: us-west-2
`

const currentProtocolExample = `kind: CredentialProviderConfig
apiVersion: kubelet.config.k8s.io/v1
providers:
- name: ecr-creds
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages:
  - "*.dkr.ecr.*.amazonaws.com"
  - "*.dkr.ecr.*.amazonaws.com.cn"
  defaultCacheDuration: 0s
  env: [{name: REGION, value: us-west-2}]
`

// testProposalExample verifies that proposalExample and currentExample return the same credential for
// the document's image.
func testProposalExample(t *testing.T, bin string) {
	w := newTestEnv(t, "012345678910.dkr.ecr.us-east-1.amazonaws.com", "AWS")
	prepareAWS(t, w)
	plugins := filepath.Join(w.dir, "plugins")
	must.Do(t, os.Mkdir(plugins, 0o755))
	must.Do(t, os.Symlink(programPath(bin, "ecr-credential-provider"), filepath.Join(plugins, "ecr-creds")))
	for name, config := range map[string]string{"the document's": proposalExample, "today's": currentProtocolExample} {
		cmd := exec.Command(programPath(bin, "regcred"), "--config", w.writeFile(t, "config.yaml", config), "--bin-dir", plugins,
			"get", "--no-node-config", "-o", "docker-config", w.host+"/my-image")
		cmd.Env = slices.Concat(w.net.Environ(), w.env, []string{"HOME=" + w.dir})
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, &stderr)
			continue
		}
		canary.AssertAbsent(t, name, stdout.String()+stderr.String())
		var got struct {
			Auths map[string]struct{ Auth []byte }
		}
		must.Do(t, json.Unmarshal(stdout.Bytes(), &got))
		if auth := string(got.Auths[w.host].Auth); len(got.Auths) != 1 || auth != "AWS:"+password {
			t.Errorf("%s: got %s, want the credential of AWS for %s", name, &stdout, w.host)
		}
	}
}
