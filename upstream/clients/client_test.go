// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package clients

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// client is a program that pulls from registries.
type client struct {
	name    string
	program string
	pkg     string // Debian package, or package path in the Go module, such as "/cmd/crane"
	module  string // Go module; "" for a Debian package
	version string // version of the module, or of the Debian package with which the traits were observed

	content   string // image or artifact to pull
	pull      func(t *testing.T, j pullJob) (ok bool, said string)
	daemon    bool // also needs dockerd
	ownConfig bool // has its own configuration and does not read docker's or podman's
	traits    clientTraits
}

// pullJob is a task for a client.
type pullJob struct {
	program string // path of the client
	image   string
	home    string // HOME, a writable directory
	environ []string
}

// clientTraits describes how a client uses the helper. An input is the text that the client sends to the
// helper; "-" means that it does not call the helper.
type clientTraits struct {
	Hub            string // input for an image of Docker Hub
	HubKeys        string // keys in credHelpers that the client uses for Docker Hub
	Store          string // input for an image of registry.example:5000, with a credsStore
	HubStore       string // input for an image of Docker Hub, with a credsStore
	Public         string // input for a public image, with credHelpers
	PublicFailure  string // reaction to a failing helper, for a public image
	PrivateFailure string // reaction to a failing helper, for a private image
	Stderr         string // what the client does with the helper's standard error
	WrongPassword  string // message for a wrong password
	Patterns       string // settings with which the client gets a credential for a pattern with a path
	Files          string // files in which the client finds credHelpers
}

// Reactions of clients.
const (
	continuesPull      = "continues"
	stopsWithReason    = "stops with the reason"
	failsWithoutReason = "fails without the reason"
	shownText              = "shown"
	breaksText             = "breaks the pull"
)

// path returns the client's path, or "" if it is missing.
func (c *client) path() string {
	if c.module == "" {
		path, err := exec.LookPath(c.program)
		if _, noDaemon := exec.LookPath("dockerd"); err != nil || c.daemon && noDaemon != nil {
			return ""
		}
		return path
	}
	path := filepath.Join(c.cachePath(), c.program)
	info, err := buildinfo.ReadFile(path)
	if err != nil || info.Main.Path != c.module || info.Main.Version != c.version {
		return ""
	}
	return path
}

// cachePath returns the directory into which a client is built.
func (c *client) cachePath() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return filepath.Join(cache, "regcred-clients", c.name+"-"+c.version+"-"+runtime.GOARCH)
}

// install builds a client with the dependencies of its release, unless it is already
// built.
func (c *client) install(ctx context.Context) error {
	if c.module == "" || c.path() != "" {
		return nil
	}
	fmt.Fprintf(os.Stderr, "clients: building %s %s: minutes, once\n", c.name, c.version)
	cmd := exec.CommandContext(ctx, "go", "install", "-trimpath", "-ldflags", "-s -w", c.module+c.pkg+"@"+c.version)
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOBIN="+c.cachePath())
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", c.name, err, said)
	}
	return nil
}

// requireInstalled returns the version of the installed client.
func (c *client) requireInstalled(t *testing.T) string {
	t.Helper()
	if c.module != "" {
		return c.version
	}
	out, err := exec.Command(c.path(), "--version").Output()
	if err != nil {
		t.Fatalf("%s --version: %v", c.name, err)
	}
	_, version, _ := strings.Cut(string(out), "version ")
	version, _, _ = strings.Cut(version+" ", " ")
	return strings.Trim(version, ",\n")
}
