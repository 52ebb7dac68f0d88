// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package lint_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/lint"
)

const configFile = `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: harbor-credential-provider
  matchImages:
  - "harbor.example.com/*"
  - "*.example.com/team"
  defaultCacheDuration: 12h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
`

func ExampleCheck() {
	cfg, err := config.Parse("config.yaml", []byte(configFile))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range lint.Check(cfg) {
		fmt.Printf("%s:%d:%d: %s: %s [%s]\n", f.File, f.Line, f.Column, f.Severity, f.Message, f.Rule)
		fmt.Printf("  write %s\n", f.Fix)
	}
	// Output:
	// config.yaml:6:5: error: "harbor.example.com/*" never matches, because globs do not work in paths, which are matched as prefixes [unmatchable-pattern]
	//   write harbor.example.com
	// config.yaml:7:5: warning: "*.example.com/team" also matches a.example.com/team-other/app, because paths are matched as plain string prefixes; a trailing slash excludes that repository, but also excludes the image a.example.com/team [sibling-path]
	//   write *.example.com/team/
}

func ExampleBinDir() {
	cfg, err := config.Parse("config.yaml", []byte(configFile))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range lint.BinDir(cfg, "testdata") {
		if f.Severity == finding.SeverityError {
			fmt.Printf("%s: %s [%s]\n", f.Provider, f.Message, f.Rule)
		}
	}
	// Output:
	// harbor-credential-provider: testdata/harbor-credential-provider does not exist, so the kubelet exits [missing-binary]
}

func ExampleBinary() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "harbor-credential-provider")
	if err := os.WriteFile(path, []byte("#!/bin/sh\r\nexec harbor\r\n"), 0o755); err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range lint.Binary(path) {
		fmt.Printf("%s: %s: %s\n", f.Severity, f.Rule, f.Fix)
	}
	// Output:
	// error: unusable-binary: save it with LF line endings
}
