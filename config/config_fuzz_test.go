// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

// configSeeds returns the files of testdata, and configurations with a secret in env or args.
func configSeeds(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/*")
	if err != nil || len(paths) < 8 {
		t.Fatalf("testdata has %d files: %v", len(paths), err)
	}
	var seeds []string
	for _, path := range paths {
		data := must.Get(os.ReadFile(path))(t)
		seeds = append(seeds, string(data))
	}
	secret := "  args: [--token, " + canary.ArgSecret + "]\n  env:\n  - name: A\n    value: " + canary.EnvSecret + "\n"
	for _, brk := range []string{"", "  foo: 1\n", "  args: {}\n", "\tx\n", "  name: [\n", "  env: *x\n"} {
		seeds = append(seeds, testConfig+secret+brk, testHeader+"providers:\n-"+secret[1:]+brk)
	}
	for _, args := range []string{"{token: %s}", "[{name: token, value: %s}]", "{a=%s: x}", "{%s: 1}", "[{%s: x}]", "[%s]", "{name: a, value: %s}", "{a: {b: %s}}", "[{name: a, value: [%s]}]", "{a: *%s}"} {
		seeds = append(seeds, outOfTreeHeader+"providers:\n- name: a\n  imageMatchers: [a.example]\n  extraArgs: "+strings.ReplaceAll(args, "%s", canary.EnvSecret)+"\n")
	}
	return append(seeds, testJSON, strings.Replace(testJSON, `"name"`, `"env":[{"name":"A","value":"`+canary.EnvSecret+`"}],"name"`, 1))
}

// FuzzLoad verifies that Load never panics or hangs, that each accepted file can be validated
// and has positions, and that errors contain no values of env or args.
func FuzzLoad(f *testing.F) {
	for _, seed := range configSeeds(f) {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &Config{}
		if err := c.addFile(newReadLimits(), "f", data); err != nil {
			checkErrors(t, err)
			return
		}
		checkLoaded(t, c, data)
	})
}

func checkLoaded(t *testing.T, c *Config, data []byte) {
	again := &Config{}
	if err := again.addFile(newReadLimits(), "other", data); err != nil || again.Hash() != c.Hash() || len(again.Providers) != len(c.Providers) {
		t.Errorf("loaded again: %d providers and error %v, want %d", len(again.Providers), err, len(c.Providers))
	}
	for _, version := range []string{"", "1.33", "1.20"} {
		if err := c.ValidateFor(Target{KubeletVersion: version}); err != nil {
			checkErrors(t, err)
		}
	}
	lines := strings.Count(string(data), "\n") + 1
	for i := range c.Providers {
		at := c.Position(i, "name")
		// YAML also has line breaks other than \n, so check this only for ASCII.
		if at.Line > lines && !strings.ContainsAny(string(data), "\r\u0085\u2028\u2029") {
			t.Errorf("provider %d is at line %d of %d", i, at.Line, lines)
		}
	}
}

// checkErrors fails the test if an error contains a secret. It ignores a secret that also
// occurs in another field, because the fuzzer may copy secrets there.
func checkErrors(t *testing.T, err error) {
	for _, e := range flattenErrors(err) {
		fe, ok := e.(*FieldError)
		if !ok {
			t.Fatalf("%T is not a *FieldError", e)
		}
		secret := strings.Contains(fe.Path, ".env") || strings.Contains(fe.Path, ".args") || strings.Contains(fe.Path, ".extraArgs")
		if fe.Value == "" || secret {
			canary.AssertAbsent(t, "error", fe.Error())
		}
	}
}
