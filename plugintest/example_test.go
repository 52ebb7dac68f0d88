// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package plugintest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/plugintest"
)

const thoughtlessScript = `#!/bin/sh
cat >/dev/null
cat <<END
{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1",
 "cacheKeyType":"Registry","cacheDuration":"21.6us",
 "auth":{"registry.example/*":{"username":"ci","password":"open-sesame"}}}
END
`

func ExampleRun() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	cmd := plugin.Command{Path: filepath.Join(dir, "thoughtless")}
	os.WriteFile(cmd.Path, []byte(thoughtlessScript), 0o755)

	for _, f := range plugintest.Run(context.Background(), cmd, plugintest.Options{Images: []string{"registry.example/team/app"}}) {
		if f.Severity == finding.SeverityError {
			fmt.Printf("%s: %s\n", f.Rule, f.Message)
		}
	}
	// Output:
	// version-v1beta1: a response with a different apiVersion than the request
	// version-v1alpha1: a response with a different apiVersion than the request
	// cache-duration: cacheDuration 21.6µs
	// auth-key-match: the response has 1 key, and no key matches: "registry.example/*": path: "/team/app" does not begin with "/*" (globs do not work in paths)
}

func ExampleTest() {
	// In a test of a plugin. Each check is a subtest.
	_ = func(t *testing.T) {
		plugintest.Test(t, plugin.Command{Path: "./my-plugin"}, plugintest.Options{Images: []string{"registry.example/team/app"}})
	}
}
