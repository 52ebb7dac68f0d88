// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/plugin"
)

const (
	demoProvider = "demo-credential-provider"
	demoUser     = "demo"
	demoRepo     = "team/app"
	demoTag      = "v1"
)

// runner runs the program with arguments and returns the exit code.
type runner func(a *app, ctx context.Context, args []string) int

// demoNode holds the demo's registry, and the directory with the node's configuration.
type demoNode struct {
	dir      string
	registry *testregistry.Server
	image    string
	digest   string
	config   string // content of the configuration
	run      runner
}

func (n *demoNode) configFile() string { return filepath.Join(n.dir, "config.yaml") }

func (n *demoNode) binDir() string { return filepath.Join(n.dir, "bin") }

// newDemoNode creates a demo node. If it fails, the caller must still close the node.
func newDemoNode(run runner) (*demoNode, error) {
	n := &demoNode{run: run}
	var err error
	if n.dir, err = os.MkdirTemp("", "regcred-demo-"); err != nil {
		return n, err
	}
	password := rand.Text()
	n.registry, err = testregistry.New(testregistry.Options{Auth: testregistry.Bearer, Users: map[string]string{demoUser: password}})
	if err != nil {
		return n, err
	}
	n.image = n.registry.Addr() + "/" + demoRepo + ":" + demoTag
	if n.digest, err = n.registry.Push(demoRepo, demoTag, testregistry.Image{LayerSize: 256 << 10}); err != nil {
		return n, err
	}
	return n, n.write(password)
}

// write writes the configuration, the password and the plugin into the directory.
func (n *demoNode) write(password string) error {
	passwordFile := filepath.Join(n.dir, "password")
	n.config = fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: %s
  matchImages: [%q]
  defaultCacheDuration: 10m
  apiVersion: %s
  args:
  - demo-plugin
  - %q
  - %q
`, demoProvider, n.registry.Addr(), plugin.V1, passwordFile, n.registry.Addr())
	return errors.Join(
		os.WriteFile(passwordFile, []byte(password), 0o600),
		os.WriteFile(n.configFile(), []byte(n.config), 0o600),
		os.Mkdir(n.binDir(), 0o700),
		copyProgram(filepath.Join(n.binDir(), demoProvider)),
	)
}

// copyProgram copies this program to path.
func copyProgram(path string) error {
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	return os.WriteFile(path, program, 0o700)
}

// close stops the registry and removes the directory.
func (n *demoNode) close() error {
	var errs []error
	if n.registry != nil {
		errs = append(errs, n.registry.Close())
	}
	if n.dir != "" {
		errs = append(errs, os.RemoveAll(n.dir))
	}
	return errors.Join(errs...)
}
