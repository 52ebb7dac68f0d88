// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

const pluginName = "static-credential-provider"

// TestMain makes the test binary run as the plugin if it is called by that name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != pluginName {
		os.Exit(m.Run())
	}
	version = "v1.2.3-test"
	main()
}

// newPluginDir returns a directory with the plugin and a password.
func newPluginDir(t *testing.T) string {
	t.Helper()
	t.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise the race detector sleeps for a second at exit
	dir := t.TempDir()
	self := must.Get(os.Executable())(t)
	must.Do(t, os.Symlink(self, filepath.Join(dir, pluginName)))
	must.Do(t, os.WriteFile(filepath.Join(dir, "password"), []byte(canary.PasswordSecret+"\n"), 0o600))
	return dir
}

func pluginCommand(dir string, args ...string) plugin.Command {
	return plugin.Command{Path: filepath.Join(dir, pluginName), Args: plugin.NewSecrets(args...), Environ: []string{"GORACE=" + os.Getenv("GORACE")}, APIVersion: plugin.V1}
}

// TestPlugin runs the plugin as a kubelet does, in every version of the protocol.
func TestPlugin(t *testing.T) {
	dir := newPluginDir(t)
	for _, v := range []string{plugin.V1, plugin.V1Beta1, plugin.V1Alpha1} {
		for how, cmd := range map[string]plugin.Command{
			"file":       pluginCommand(dir, "--password-file", filepath.Join(dir, "password")),
			"credential": pluginCommand(dir, "--password-credential=password"),
		} {
			// Flags may follow a positional argument.
			cmd.Args = append(cmd.Args, plugin.NewSecrets("get-credentials", "--username", "node", "--host", "r.example", "--host=*.s.example", "--cache-duration=1h", "--other-hosts=empty")...)
			cmd.Env = plugin.NewSecrets("CREDENTIALS_DIRECTORY=" + dir)
			cmd.APIVersion = v
			for image, key := range map[string]string{"r.example/app": "r.example", "a.s.example/app": "a.s.example", "evil.example/app": ""} {
				x, err := cmd.Run(t.Context(), &plugin.Request{Image: image})
				if err != nil {
					t.Errorf("%s, %s: %v", how, image, err)
					continue
				}
				want := plugin.AuthConfig{Username: "node", Password: plugin.NewSecret(canary.PasswordSecret)}
				auth := x.Response.Auth
				duration := map[bool]time.Duration{false: time.Hour}[key == ""]
				if key == "" && len(auth) > 0 || key != "" && !auth[key].Equal(want) || *x.Response.CacheDuration != duration {
					t.Errorf("%s, %s: cached for %v, or other credentials than wanted", how, image, x.Response.CacheDuration)
				}
				canary.AssertAbsent(t, "stderr", x.Stderr)
			}
		}
	}
}

// TestPluginFails verifies the errors of the plugin. [plugin.Command] redacts the values of
// arguments, because they may be secrets. A kubelet does not.
func TestPluginFails(t *testing.T) {
	dir := newPluginDir(t)
	for _, tt := range []struct{ args, want string }{
		{"", "set either --username or --username-file"},
		{"--username=u --password-credential=p --host=r.example", "--password-credential: CREDENTIALS_DIRECTORY is not set; add LoadCredential= or LoadCredentialEncrypted= to the kubelet's unit, and restart it"},
		{"--username=u --password-file=/nonexistent --host=r.example", `registry "r.example": read "/nonexistent": no such file or directory; create the file or fix the flag`},
		{"--username=u --password-file=/nonexistent --host=s.example", `image host "r.example" is not matched by any --host, so it gets no credential; remove it from matchImages, add --host=r.example, or set --other-hosts=empty`},
		{"--other-hosts=x", `invalid argument "[redacted]" for "--other-hosts" flag: must be fail or empty; --help lists the flags`},
		{"--user=u", "unknown flag: --user; --help lists the flags"},
	} {
		x, err := pluginCommand(dir, strings.Fields(tt.args)...).Run(t.Context(), &plugin.Request{Image: "r.example/app"})
		if x.ExitCode != 1 || !x.Stdout.IsZero() || !strings.HasSuffix(x.Stderr, tt.want+"\n") || strings.Count(x.Stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, stderr %q, want %q; %v", tt.args, x.ExitCode, x.Stderr, tt.want, err)
		}
		canary.AssertAbsent(t, "stderr and error", x.Stderr+fmt.Sprint(err))
	}
}

func TestHelpAndVersion(t *testing.T) {
	dir := newPluginDir(t)
	for flag, want := range map[string]string{
		"--version": pluginName + " v1.2.3-test\n",
		"--help":    "--host host[:port]",
	} {
		out, err := exec.Command(filepath.Join(dir, pluginName), flag).Output()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %q", flag, err, out)
		}
	}
}
