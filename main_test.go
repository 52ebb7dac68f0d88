// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// testPlugin is the environment variable that turns the test binary into a plugin. Its value
// selects the plugin. The user name in the response contains the arguments and the value of
// REGION.
const testPlugin = "REGCRED_TEST_PLUGIN"

func TestMain(m *testing.M) {
	if mode := os.Getenv(testPlugin); mode != "" {
		os.Exit(runTestPlugin(mode))
	}
	os.Exit(m.Run())
}

func runTestPlugin(mode string) int {
	user := strings.Join(append(os.Args[1:], os.Getenv("REGION")), " ")
	if kind, ok := strings.CutPrefix(mode, "soak-"); ok {
		return soakPlugin(kind, user)
	}
	switch mode {
	case "old": // behaves exactly as the out-of-tree proposal documents
		const request = `{"image":"registry.example/team/app"}`
		stdin, err := io.ReadAll(os.Stdin)
		if err != nil || strings.TrimSpace(string(stdin)) != request && os.Getenv("ANY") == "" {
			fmt.Fprintf(os.Stderr, "standard input is not %s; %v\n", request, err)
			return 1
		}
		fmt.Printf(`{"kind": "RegistryCredentialPluginResponse", "apiVersion": "v1alpha1", "username": %q, "password": %q`, user, canary.PasswordSecret)
		if at := os.Getenv("EXPIRES"); at != "" {
			fmt.Printf(`, "expirationTimestamp": %q`, at)
		}
		fmt.Println("}")
	case "new": // responds in the request's version
		return plugin.Serve(context.Background(), responseForImage(user), plugin.ServeOptions{Args: os.Args[1:]})
	case "refuses": // prints its arguments and fails
		fmt.Fprintln(os.Stderr, "cannot open", user)
		return 1
	case "only-new":
		fmt.Printf(`{"kind":"CredentialProviderResponse","apiVersion":%q,"cacheKeyType":"Image","auth":{}}`+"\n", plugin.V1)
	}
	return 0
}

// responseForImage returns a provider with a credential for every image in the requested registry. The
// response may be cached for an hour.
func responseForImage(user string) plugin.Provider {
	return plugin.ProviderFunc(func(_ context.Context, req *plugin.Request) (*plugin.Response, error) {
		host, _, _ := strings.Cut(req.Image, "/")
		return &plugin.Response{CacheKeyType: plugin.CacheRegistry, CacheDuration: new(time.Hour),
			Auth: map[string]plugin.AuthConfig{host: {Username: user, Password: plugin.NewSecret(canary.PasswordSecret)}}}, nil
	})
}

// testBinDir returns a directory of plugin executables. Each plugin is the test binary.
func testBinDir(t *testing.T, names ...string) string {
	t.Helper()
	self := must.Get(os.Executable())(t)
	dir := t.TempDir()
	for _, name := range names {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
	}
	return dir
}

// testEnviron returns the environment for the plugins in testBinDir. Without GORACE, the race
// detector would sleep for a second when a plugin exits.
func testEnviron() []string {
	return append(slices.Clone(os.Environ()), "GORACE=atexit_sleep_ms=0")
}
