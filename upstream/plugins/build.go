// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package plugins runs this repository's plugins and AWS's ECR plugin against the same fake clouds
// on loopback. The exported functions build plugins and start clouds, for the tests and for bench.
// ecr.mod pins the release of AWS's plugin.
package plugins

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ECR and the following constants are the names of this repository's plugins.
const (
	ECR          = "ecr-credential-provider"
	GCR          = "auth-provider-gcp"
	ACR          = "acr-credential-provider"
	DockerConfig = "dockerconfig-credential-provider"
	Token        = "token-credential-provider"
	Static       = "static-credential-provider"
)

// Dispatcher is the name of the plugin that is configured once in the kubelet and calls
// other plugins.
const Dispatcher = "regcred-credential-provider"

// upstreamModule is the module of AWS's plugin.
const upstreamModule = "k8s.io/cloud-provider-aws"

// Build builds one of this repository's plugins into dir with the flags of a release, and
// returns its path.
func Build(dir, name string) (string, error) {
	root, err := RepositoryRoot()
	if err != nil {
		return "", err
	}
	return BuildFrom(root, dir, name)
}

// BuildFrom is like [Build], for another working tree of this repository.
func BuildFrom(root, dir, name string) (string, error) {
	return goBuild(root, filepath.Join(dir, name), "./cmd/"+name)
}

// BuildRelease is like [Build], and sets the version that the program reports.
func BuildRelease(dir, name, version string) (string, error) {
	root, err := RepositoryRoot()
	if err != nil {
		return "", err
	}
	return goBuild(root, filepath.Join(dir, name), "-ldflags", "-s -w -X main.version="+version, "./cmd/"+name)
}

// BuildInRepository builds a command of upstream/ into dir with the same flags, and returns its
// path.
func BuildInRepository(dir, name string) (string, error) {
	module, err := moduleDir()
	if err != nil {
		return "", err
	}
	return goBuild(module, filepath.Join(dir, filepath.Base(name)), "./"+name)
}

// BuildUpstreamECR builds AWS's plugin into dir with the same flags, and returns its
// path. It needs no network once the modules in ecr.mod are downloaded.
func BuildUpstreamECR(dir string) (string, error) {
	module, err := moduleDir()
	if err != nil {
		return "", err
	}
	return goBuild(module, filepath.Join(dir, "upstream-"+ECR), "-modfile=ecr.mod", upstreamModule+"/cmd/"+ECR)
}

// UpstreamVersion returns the release from which [BuildUpstreamECR] built the program.
func UpstreamVersion(path string) (string, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return "", err
	}
	if info.Main.Path != upstreamModule {
		return "", fmt.Errorf("%s is built from %s", path, info.Main.Path)
	}
	return info.Main.Version, nil
}

// RepositoryRoot returns the root of the working tree that contains upstream/.
func RepositoryRoot() (string, error) {
	module, err := moduleDir()
	return filepath.Dir(module), err
}

// moduleDir returns the directory upstream/, independent of the working directory.
func moduleDir() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	return strings.TrimSpace(string(out)), err
}

func goBuild(dir, out string, args ...string) (string, error) {
	cmd := exec.Command("go", append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", out}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", args[len(args)-1], err, said)
	}
	return out, nil
}
