// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

const pluginName = "dockerconfig-credential-provider"

// TestMain makes the test binary run as the plugin or a helper if it is called by that name.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case pluginName:
		version = "v1.2.3-test"
		main()
	case "docker-credential-good":
		fmt.Println(`{"Username":"of-helper","Secret":"` + canary.PasswordSecret + `"}`)
	case "docker-credential-failing":
		fmt.Fprintln(os.Stderr, "password was "+canary.PasswordSecret)
		fmt.Println("cannot unlock with " + canary.PasswordSecret)
		os.Exit(1)
	default:
		os.Exit(m.Run())
	}
}

// newPluginDir returns a directory with the plugin, the helpers and a config.json.
func newPluginDir(t *testing.T) string {
	t.Helper()
	t.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise the race detector sleeps for a second at exit
	dir := t.TempDir()
	self := must.Get(os.Executable())(t)
	for _, name := range []string{pluginName, "docker-credential-good", "docker-credential-failing"} {
		must.Do(t, os.Symlink(self, filepath.Join(dir, name)))
	}
	login := func(user string) string {
		return `{"auth":"` + base64.StdEncoding.EncodeToString([]byte(user+":"+canary.PasswordSecret)) + `"}`
	}
	writeFile(t, filepath.Join(dir, "config.json"), `{
		"auths": {
			"r.example": `+login("all")+`, "r.example/team": `+login("team")+`, "r.example/v2/team": `+login("v2")+`,
			"https://index.docker.io/v1/": `+login("hub")+`
		},
		"credHelpers": {"h.example:5000": "good", "f.example": "failing"}
	}`)
	return dir
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}

func pluginCommand(dir string, args ...string) plugin.Command {
	return plugin.Command{Path: filepath.Join(dir, pluginName), Args: plugin.NewSecrets(args...), Environ: []string{"GORACE=" + os.Getenv("GORACE")}, APIVersion: plugin.V1}
}

// TestPlugin runs the plugin as a kubelet does, in every version of the protocol.
func TestPlugin(t *testing.T) {
	dir := newPluginDir(t)
	for _, v := range []string{plugin.V1, plugin.V1Beta1, plugin.V1Alpha1} {
		// The plugin ignores the argument get-credentials, which configurations for other plugins
		// contain.
		cmd := pluginCommand(dir, "get-credentials", "--config", filepath.Join(dir, "config.json"), "--helper-dir="+dir)
		cmd.APIVersion = v
		x := must.Get(cmd.Run(t.Context(), &plugin.Request{Image: "h.example:5000/app"}))(t)
		want := plugin.AuthConfig{Username: "of-helper", Password: plugin.NewSecret(canary.PasswordSecret)}
		if !x.Response.Auth["h.example:5000"].Equal(want) || x.Response.CacheDuration.String() != "5m0s" || x.Stderr != "" {
			t.Errorf("%s: stderr %q, cached for %v, or another credential than wanted", v, x.Stderr, x.Response.CacheDuration)
		}
	}
}

// TestPluginFails verifies the errors of the plugin. [plugin.Command] redacts the values of
// arguments, because they may be secrets. A kubelet does not.
func TestPluginFails(t *testing.T) {
	dir := newPluginDir(t)
	file := "--config=" + filepath.Join(dir, "config.json")
	for _, tt := range []struct {
		name, image string
		args        []string
		want        string
	}{
		{"no file named", "r.example/app", nil, "--config is required, for example --config /etc/registry/config.json"},
		{"no such file", "r.example/app", []string{"--config=/nonexistent"}, `registry "r.example": read "[redacted: args[0]]": no such file or directory; fix --config, or set --optional if the file is not required`},
		{"unknown flag", "r.example/app", []string{"--confg=x"}, "unknown flag: --confg; --help lists the flags"},
		{"helper fails", "f.example/app", []string{file, "--helper-dir", dir, "--v=4"}, `registry "f.example": docker-credential-failing get "f.example": exit status 1; the helper's output is hidden because it might contain secrets: to see it, run the helper manually as the same user and in the same environment`},
		{"no helper", "f.example/app", []string{file}, `registry "f.example": docker-credential-failing get "f.example": not found in PATH ""`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x, err := pluginCommand(dir, tt.args...).Run(t.Context(), &plugin.Request{Image: tt.image})
			if x.ExitCode != 1 || !x.Stdout.IsZero() || !strings.HasSuffix(x.Stderr, pluginName+": "+tt.want+"\n") {
				t.Errorf("exit code %d, stderr %q, want %q; %v", x.ExitCode, x.Stderr, tt.want, err)
			}
			canary.AssertAbsent(t, "stderr and error", x.Stderr+fmt.Sprint(err))
		})
	}
}

// TestLookup runs the plugin through a keyring, which handles the response as a kubelet does.
func TestLookup(t *testing.T) {
	dir := newPluginDir(t)
	file := filepath.Join(t.TempDir(), "config.yaml")
	writeFile(t, file, `
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
  - name: `+pluginName+`
    apiVersion: credentialprovider.kubelet.k8s.io/v1
    matchImages: ["*.example", "*.example:5000", docker.io]
    defaultCacheDuration: 0s
    args: [--config, `+filepath.Join(dir, "config.json")+`, --helper-dir, `+dir+`]
`)
	c := must.Get(config.Load(file))(t)
	keyring := must.Get(regcred.New(c, regcred.Options{BinDir: dir}))(t)
	defer keyring.Close()
	for image, want := range map[string]string{
		"r.example/app":          "all",
		"r.example/team/app":     "team all",
		"r.example/team-b/app":   "all",
		"r.example/v2/team/app":  "v2",
		"nginx":                  "hub",
		"h.example:5000/app":     "of-helper",
		"s.example/app":          "",
		"r.example/other/app:v1": "all",
	} {
		result, err := keyring.Lookup(t.Context(), regcred.Request{Image: image})
		if err != nil {
			t.Errorf("%s: %v", image, err)
			continue
		}
		var users []string
		for _, c := range result.Credentials {
			users = append(users, c.Username)
		}
		if got := strings.Join(users, " "); got != want {
			t.Errorf("%s: users %q, want %q", image, got, want)
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	dir := newPluginDir(t)
	for flag, want := range map[string]string{
		"--version": pluginName + " v1.2.3-test\n",
		"--help":    "--helper-dir directory",
	} {
		out, err := exec.Command(filepath.Join(dir, pluginName), flag).Output()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %q", flag, err, out)
		}
	}
}
