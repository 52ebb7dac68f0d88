// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// TestMain makes the test binary run as a plugin if it is started under a plugin's name.
func TestMain(m *testing.M) {
	name := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	if slices.Contains(pluginNames(), name) {
		plugin.Main(plugin.ProviderFunc(pluginResponse))
	}
	os.Exit(m.Run())
}

// pluginNames returns the names under which the test binary runs as a plugin. The plugin supports the
// out-of-tree protocol and all versions of the kubelet's protocol.
func pluginNames() []string {
	return []string{"ecr-creds", "two", "failing", "empty", "ecr", "second", "whole-registry"}
}

// pluginResponse is the plugin's response. The user name contains the configuration that the plugin
// received. The plugins "ecr-creds" and "two" respond only for the image, the others for the
// registry.
func pluginResponse(_ context.Context, req *plugin.Request) (*plugin.Response, error) {
	name := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	key, _, _ := strings.Cut(req.Image, "/")
	life := time.Hour
	resp := &plugin.Response{CacheKeyType: plugin.CacheRegistry, CacheDuration: &life}
	switch name {
	case "failing":
		return nil, errors.New("no cloud today")
	case "empty":
		return resp, nil
	case "ecr-creds", "two":
		resp.CacheKeyType, key = plugin.CacheImage, req.Image
	}
	user := fmt.Sprintf("%s for %s: USER %s, REGION %s", name, key, os.Getenv("USER"), os.Getenv("REGION"))
	resp.Auth = map[string]plugin.AuthConfig{key: {Username: user, Password: plugin.NewSecret(canary.PasswordSecret + os.Getenv("TOKEN"))}}
	return resp, nil
}

// linkPlugins returns a new bin dir with links to the test binary under all plugin names.
func linkPlugins(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	binary := must.Get(os.Executable())(t)
	suffix := ""
	if runtime.GOOS == "windows" {
		suffix = ".exe"
	}
	for _, name := range pluginNames() {
		must.Do(t, os.Symlink(binary, filepath.Join(dir, name+suffix)))
	}
	return dir
}

// imagesByConfig lists images for the patterns in the test configurations, and one image that matches none.
var imagesByConfig = []string{
	"012345678910.dkr.ecr.us-east-1.amazonaws.com/my-image",
	"012345678910.dkr.ecr.cn-north-1.amazonaws.com.cn/a/b:1.2",
	"registry.example/team/app",
	"registry.example:5000/team/app@sha256:" + strings.Repeat("0", 64),
	"failing.example/app",
	"empty.example/app",
	"public.ecr.aws/x/y",
	"nginx",
}

const others = `kind: RegistryCredentialConfig
apiVersion: v1alpha1
providers:
- name: failing
  imageMatchers: [failing.example, registry.example]
- name: empty
  imageMatchers: [empty.example]
`

// TestConvertedGivesTheSameCredentials verifies that lookups return the same credentials before and
// after a conversion.
func TestConvertedGivesTheSameCredentials(t *testing.T) {
	v1 := strings.NewReplacer("s.io/v1beta1", "s.io/v1", "s.io/v1alpha1", "s.io/v1").Replace
	sources := map[string]map[string]string{
		"v1":          {"1.yaml": v1(v1beta1Config)},
		"v1beta1":     {"1.yaml": v1beta1Config},
		"v1alpha1":    {"1.yaml": strings.Replace(v1beta1Config, "io/v1beta1'", "io/v1alpha1'", 1)},
		"predecessor": {"1.yaml": outOfTreeConfig},
		"failures":    {"1.yaml": others},
		"all":         {"1.yaml": v1beta1Config, "2.yaml": outOfTreeConfig, "3.yml": others},
	}
	bin := linkPlugins(t)
	for name, files := range sources {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range files {
				writeFile(t, dir, file, text)
			}
			want := lookUpImages(t, dir, bin)
			for _, how := range []struct {
				layout  Layout
				options Options
			}{{LayoutKeep, Options{}}, {LayoutSingle, Options{}}, {LayoutSplit, Options{}}, {LayoutSingle, Options{Format: JSON}}, {LayoutKeep, Options{PluginAPIVersion: plugin.V1}}} {
				t.Run(fmt.Sprint(how.layout, how.options), func(t *testing.T) {
					got := lookUpImages(t, convertToDir(t, dir, how.layout, how.options), bin)
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("-source +result\n%s", diff)
					}
				})
			}
		})
	}
}

// convertToDir converts a configuration, writes the result to a directory and returns the directory's
// path.
func convertToDir(t *testing.T, path string, layout Layout, o Options) string {
	t.Helper()
	res := must.Get(Convert(path, layout, o))(t)
	dir := filepath.Join(t.TempDir(), "new")
	must.Do(t, CreateDir(dir, res.Files))
	return dir
}

// lookUpImages looks up each image. It returns the credentials in order, and which lookups and providers
// failed.
func lookUpImages(t *testing.T, path, bin string) map[string][]string {
	t.Helper()
	cfg, err := config.Load(path)
	if err == nil {
		err = cfg.Validate()
	}
	if err != nil {
		t.Fatal(err)
	}
	k := must.Get(regcred.New(cfg, regcred.Options{BinDir: bin, Environ: []string{"USER=nobody", "GORACE=atexit_sleep_ms=0"}}))(t)
	defer k.Close()
	got, found := map[string][]string{}, 0
	for _, image := range imagesByConfig {
		res, err := k.Lookup(t.Context(), regcred.Request{Image: image})
		var failure *regcred.LookupError
		if err != nil && !errors.As(err, &failure) {
			t.Fatal(err)
		}
		got[image] = append(got[image], fmt.Sprint("failed: ", failure != nil))
		for _, c := range res.Credentials {
			token := strings.TrimPrefix(c.Password.Reveal(), canary.PasswordSecret) == canary.EnvSecret
			user := strings.ReplaceAll(c.Username, canary.Marker, "MASKED-")
			got[image] = append(got[image], fmt.Sprintf("%s, TOKEN %v", user, token))
			found++
		}
		for _, a := range res.Attempts {
			got[image] = append(got[image], fmt.Sprint(a.Provider, " failed: ", a.Err != nil))
		}
	}
	if found == 0 && !strings.Contains(fmt.Sprint(got), "failing failed: true") {
		t.Fatal("no credentials, so nothing was compared")
	}
	return got
}

// TestConvertedOrder verifies the order of credentials, as documented in docs/migration.md. A
// response in the out-of-tree protocol is for one image, so it precedes other providers' responses
// for the registry. In the kubelet's protocol, the plugin may also respond for the registry. The
// order of the configuration then decides.
func TestConvertedOrder(t *testing.T) {
	dir, bin := t.TempDir(), linkPlugins(t)
	writeFile(t, dir, "1.yaml", `kind: CredentialProviderConfig
apiVersion: kubelet.config.k8s.io/v1
providers:
- {name: second, matchImages: [registry.example], defaultCacheDuration: 0s, apiVersion: credentialprovider.kubelet.k8s.io/v1}
`)
	writeFile(t, dir, "2.yaml", `kind: RegistryCredentialConfig
apiVersion: v1alpha1
providers:
- {name: whole-registry, imageMatchers: [registry.example]}
`)
	first := func(path string) string {
		name, _, _ := strings.Cut(lookUpImages(t, path, bin)["registry.example/team/app"][1], " ")
		return name
	}
	if got := first(dir) + ", " + first(convertToDir(t, dir, LayoutKeep, Options{})); got != "whole-registry, second" {
		t.Errorf("first before and after: %s", got)
	}
}
