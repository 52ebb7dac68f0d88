// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

// TestConvertBad verifies the errors for invalid configurations. They contain the position, but no
// values of env or args.
func TestConvertBad(t *testing.T) {
	secrets := "  args: [" + canary.ArgSecret + "]\n  env: [{name: A, value: " + canary.EnvSecret + "}]\n"
	head := func(kind, version string) string {
		return "kind: " + kind + "\napiVersion: " + version + "\nproviders:\n"
	}
	v1beta1 := head("CredentialProviderConfig", "kubelet.config.k8s.io/v1beta1")
	old := head("RegistryCredentialConfig", "v1alpha1") + "- name: a\n"
	entry := "- name: a\n  matchImages: [r.example]\n  defaultCacheDuration: 1h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n"
	for name, tt := range map[string]struct{ text, want string }{
		"empty":                   {"", "config.yaml"},
		"no providers":            {v1beta1[:len(v1beta1)-1] + " []\n", "providers: there are no providers to convert"},
		"not YAML":                {"\x00", "not valid YAML"},
		"binary":                  {"\xff\xfe\x00", "config.yaml"},
		"another kind":            {head("Secret", "v1"), "config.yaml:1:7: kind: "},
		"the kubelet's own":       {head("KubeletConfiguration", "kubelet.config.k8s.io/v1beta1"), "config.yaml:1:7: kind: "},
		"another version":         {head("CredentialProviderConfig", "kubelet.config.k8s.io/v2"), "config.yaml:2:13: apiVersion: "},
		"unknown field":           {v1beta1 + entry + secrets + "  matchimages: []\n", "providers[0]"},
		"tokenAttributes":         {v1beta1 + entry + secrets + "  tokenAttributes: {}\n", "supported only in version kubelet.config.k8s.io/v1"},
		"the same name twice":     {v1beta1 + entry + entry, "config.yaml:8:9: "},
		"value that is no text":   {v1beta1 + entry + "  env: [{name: A, value: [" + canary.EnvSecret + "]}]\n", "providers[0].env[0].value"},
		"tab":                     {v1beta1 + "\t" + entry, "tab"},
		"pattern without quotes":  {old + "  imageMatchers:\n  - *.dkr.ecr.*.amazonaws.com\n", "config.yaml:6:5: "},
		"today's field":           {old + "  matchImages: [r.example]\n", "matchImages"},
		"extra argument twice":    {old + "  imageMatchers: [r.example]\n  extraArgs: {region: " + canary.EnvSecret + ", REGION: " + canary.EnvSecret + "}\n", "sets the same variable"},
		"extra arguments, both":   {old + "  imageMatchers: [r.example]\n  extraArgs: [{name: A, value: " + canary.EnvSecret + "}]\n  extraArgs: {b: " + canary.EnvSecret + "}\n", "config.yaml:7:3: providers[0].extraArgs: a field is set twice"},
		"extra arguments, mixed":  {old + "  imageMatchers: [r.example]\n  extraArgs: [{name: A, value: " + canary.EnvSecret + "}, {region: " + canary.EnvSecret + "}]\n", "providers[0].extraArgs[1]: has an unknown field"},
		"extra arguments, a text": {old + "  imageMatchers: [r.example]\n  extraArgs: " + canary.EnvSecret + "\n", "providers[0].extraArgs: is a string"},
		"extra argument, no name": {old + "  imageMatchers: [r.example]\n  extraArgs: [{name: A=" + canary.EnvSecret + ", value: " + canary.EnvSecret + "}]\n", "extraArgs[0].name"},
		"extra argument, number":  {old + "  imageMatchers: [r.example]\n  extraArgs: {a: 1}\n", "extraArgs"},
		"without patterns":        {old + "  extraArgs: {a: " + canary.EnvSecret + "}\n", "imageMatchers"},
		"pattern that is none":    {old + "  imageMatchers: ['r example']\n", "config.yaml:5:19: "},
		"half of JSON":            {`{"kind":"CredentialProviderConfig","apiVersion":"kubelet.config.k8s.io/v1beta1","providers":[{"args":["` + canary.ArgSecret + `"`, "not valid JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, t.TempDir(), "config.yaml", tt.text)
			for _, layout := range []Layout{LayoutKeep, LayoutSingle, LayoutSplit} {
				_, err := Convert(path, layout, Options{})
				if err == nil {
					t.Fatal("no error")
				}
				canary.AssertAbsent(t, "the error", err.Error())
				if !strings.Contains(err.Error(), tt.want) && canary.FindMarker(err.Error()) == "" {
					t.Errorf("got %q, want %q in it", err, tt.want)
				}
			}
		})
	}
	if _, err := Convert(filepath.Join(t.TempDir(), "missing"), LayoutKeep, Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}

// TestResultValidate verifies that errors of Result.Validate have positions in the result.
func TestResultValidate(t *testing.T) {
	res := convertText(t, strings.Replace(v1beta1Config, "720m", "-720m", 1), LayoutKeep, Options{})
	check := func(target config.Target, want string) {
		t.Helper()
		err := res.Validate(target, "out")
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q first", err, want)
		}
	}
	check(config.Target{}, "out:12:26: providers[0].defaultCacheDuration: must not be negative")
	check(config.Target{KubeletVersion: "1.25"}, "out:5:13: apiVersion: kubelet 1.25 does not support this version of the file")
	check(config.Target{KubeletVersion: "x"}, `invalid kubelet version "x"`)
	var err error
	if res, err = Convert(writeMixedVersions(t), LayoutSplit, Options{}); err != nil {
		t.Fatal(err)
	}
	check(config.Target{KubeletVersion: "1.33"}, "out: kubelet 1.33 does not support a configuration directory")
	check(config.Target{KubeletVersion: "1.25"}, "out: kubelet 1.25 does not support a configuration directory (added in 1.34); use a single file\n"+filepath.Join("out", "10-ecr.yaml")+":1:13: ")
	if res, err = Convert(filepath.Dir(writeFile(t, t.TempDir(), "only.yaml", v1beta1Config)), LayoutKeep, Options{}); err != nil {
		t.Fatal(err)
	}
	check(config.Target{KubeletVersion: "1.33"}, "out: kubelet 1.33 does not support a configuration directory")
	if err := convertText(t, v1beta1Config, LayoutKeep, Options{}).Validate(config.Target{}, "out"); err != nil {
		t.Error(err)
	}
}

// TestConvertLeavesNothing verifies that Convert leaves no temporary files.
func TestConvertLeavesNothing(t *testing.T) {
	temp := t.TempDir()
	for _, name := range []string{"TMPDIR", "TMP", "TEMP"} {
		t.Setenv(name, temp)
	}
	dir := filepath.Join(temp, "source")
	must.Do(t, os.Mkdir(dir, 0o700))
	must.Get(Convert(writeFile(t, dir, "config.yaml", v1beta1Config), LayoutSplit, Options{}))(t)
	entries, err := os.ReadDir(temp)
	if err != nil || len(entries) != 1 {
		t.Errorf("%d entries, %v, want the source alone", len(entries), err)
	}
}

// TestConvertWithoutTempDir verifies that Convert works without a temporary directory. Other users
// might be able to read secrets there.
func TestConvertWithoutTempDir(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	must.Do(t, os.WriteFile(path, []byte(outOfTreeConfig), 0o600))
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	for _, layout := range []Layout{LayoutKeep, LayoutSingle, LayoutSplit} {
		res, err := Convert(path, layout, Options{})
		if err == nil {
			err = res.Validate(config.Target{}, path)
		}
		if err != nil {
			t.Errorf("layout %v: %v", layout, err)
		}
	}
}
