// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// newBareTestHost returns a box whose environment sets no configuration.
func newBareTestHost(t *testing.T) *testHost {
	b := newTestHost(t, "good r.example")
	b.env = slices.DeleteFunc(b.env, func(entry string) bool { return strings.HasPrefix(entry, "REGCRED_") })
	b.env = append(b.env, "TEST_ROOT="+b.filePath("root"))
	return b
}

// TestWhereTheConfigurationIs verifies that the helper finds the same configuration as "regcred
// get". On a machine that is not a node, the configuration is in /etc/regcred.
func TestWhereTheConfigurationIs(t *testing.T) {
	b := newBareTestHost(t)
	stdout, code := b.runGet("r.example")
	b.checkFailure("no configuration", stdout, code, "no credential provider configuration was given, and none was found in the usual places",
		"set both REGCRED_CONFIG and REGCRED_BIN_DIR, or put the files at /etc/regcred/credential-providers.yaml and /etc/regcred/bin")
	stdout, code = b.run(b.helperCommand("", []string{"list"}))
	b.checkFailure("list", stdout, code, "no credential provider configuration")
	stdout, code = b.runGet("r.example", "REGCRED_CONFIG="+b.filePath("c.yaml"))
	b.checkFailure("half", stdout, code, "REGCRED_CONFIG is set, but REGCRED_BIN_DIR is not set")
	stdout, code = b.runGet("r.example", "REGCRED_CONFIG="+b.filePath("absent.yaml"), "REGCRED_BIN_DIR="+b.dir)
	b.checkFailure("absent", stdout, code, "REGCRED_CONFIG: "+b.filePath("absent.yaml")+": cannot be found", "the kubelet would not start without this configuration; set another path or create the file")
	stdout, code = b.runGet("r.example", "REGCRED_CONFIG=absent.yaml", "REGCRED_BIN_DIR="+b.dir)
	b.checkFailure("relative", stdout, code, "REGCRED_CONFIG: absent.yaml: cannot be found", "this path is relative to the working directory")

	b.writeFile("root/etc/regcred/credential-providers.yaml", providersConfig("second r.example"))
	must.Do(t, os.Symlink(b.dir, b.filePath("root/etc/regcred/bin")))
	expect := func(what, want string, env ...string) {
		t.Helper()
		if stdout, code := b.runGet("r.example", env...); code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%s: exit code %d, want a response with %q", what, code, want)
		}
	}
	expect("this machine's own", `"Username":"second"`)
	expect("given", `"Username":"user"`, "REGCRED_CONFIG="+b.filePath("c.yaml"), "REGCRED_BIN_DIR="+b.dir)
	expect("given, with this machine's plugins", `"Username":"user"`, "REGCRED_CONFIG="+b.filePath("c.yaml"))
	b.writeFile("root/var/lib/rancher/credentialprovider/config.yaml", providersConfig("identity r.example"))
	must.Do(t, os.Symlink(b.dir, b.filePath("root/var/lib/rancher/credentialprovider/bin")))
	expect("a node's", "token")

	for _, broken := range []string{"", "{", "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders: []\n"} {
		b.writeFile("c.yaml", broken)
		stdout, code := b.runGet("r.example", "REGCRED_CONFIG="+b.filePath("c.yaml"), "REGCRED_BIN_DIR="+b.dir)
		b.checkFailure("broken", stdout, code, "the kubelet would not start with this configuration")
	}
	b.writeFile("c.yaml", providersConfig("good r.example")+"  w: 1\n  x: 1\n")
	stdout, code = b.runGet("r.example", "REGCRED_CONFIG="+b.filePath("c.yaml"), "REGCRED_BIN_DIR="+b.dir)
	b.checkFailure("broken twice", stdout, code, ".w: unknown field; ", ".x: unknown field; ", "the kubelet would not start")
}

// TestConfigurationOfOthers verifies that files writable by another user are rejected,
// because their plugins would run with the caller's privileges.
func TestConfigurationOfOthers(t *testing.T) {
	b := newBareTestHost(t)
	b.writeFile("root/etc/regcred/credential-providers.yaml", providersConfig("good r.example"))
	must.Do(t, os.Symlink(b.dir, b.filePath("root/etc/regcred/bin")))
	must.Do(t, os.Chmod(b.filePath("root/etc/regcred/credential-providers.yaml"), 0o666))
	stdout, code := b.runGet("r.example")
	b.checkFailure("writable by others", stdout, code, "refusing this machine's configuration", "writable by all users", "chmod go-w", "or set REGCRED_CONFIG and REGCRED_BIN_DIR to use this configuration anyway")
	if plugins, _ := b.takePluginRuns(); len(plugins) > 0 {
		t.Errorf("runs of %q", plugins)
	}
}
