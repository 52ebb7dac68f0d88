// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package plugins runs the plugins of this repository and the real one of AWS
// against the same clouds on loopback. What is exported builds them and starts
// clouds, for the tests here and for bench. ecr.mod pins the release of AWS.
package plugins

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The names of this repository's plugins.
const (
	ECR          = "ecr-credential-provider"
	GCR          = "auth-provider-gcp"
	ACR          = "acr-credential-provider"
	DockerConfig = "dockerconfig-credential-provider"
	Token        = "token-credential-provider"
	Static       = "static-credential-provider"
)

// Dispatcher is the name of the plugin that a kubelet is given once, which asks
// others.
const Dispatcher = "regcred-credential-provider"

// upstreamModule is where the real plugin of AWS comes from.
const upstreamModule = "k8s.io/cloud-provider-aws"

// Build builds a plugin of this repository into dir, as a release has it, and
// returns its path.
func Build(dir, name string) (string, error) {
	root, err := Repository()
	if err != nil {
		return "", err
	}
	return BuildFrom(root, dir, name)
}

// BuildFrom is [Build] from another working tree of this repository.
func BuildFrom(root, dir, name string) (string, error) {
	return build(root, filepath.Join(dir, name), "./cmd/"+name)
}

// BuildRelease is [Build] with a version, as a release has it.
func BuildRelease(dir, name, version string) (string, error) {
	root, err := Repository()
	if err != nil {
		return "", err
	}
	return build(root, filepath.Join(dir, name), "-ldflags", "-s -w -X main.version="+version, "./cmd/"+name)
}

// BuildHere builds a command of upstream/ into dir with the same flags, and
// returns its path.
func BuildHere(dir, name string) (string, error) {
	module, err := moduleDir()
	if err != nil {
		return "", err
	}
	return build(module, filepath.Join(dir, filepath.Base(name)), "./"+name)
}

// BuildUpstreamECR builds the real plugin of AWS into dir, with the same
// flags, and returns its path. It needs no network once the modules of ecr.mod
// are there.
func BuildUpstreamECR(dir string) (string, error) {
	module, err := moduleDir()
	if err != nil {
		return "", err
	}
	return build(module, filepath.Join(dir, "upstream-"+ECR), "-modfile=ecr.mod", upstreamModule+"/cmd/"+ECR)
}

// UpstreamVersion is the release from which a program of [BuildUpstreamECR]
// was built.
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

// Repository is the root of the working tree that upstream/ is in.
func Repository() (string, error) {
	module, err := moduleDir()
	return filepath.Dir(module), err
}

// moduleDir is the directory of upstream/, whatever the working directory is.
func moduleDir() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	return strings.TrimSpace(string(out)), err
}

func build(dir, out string, args ...string) (string, error) {
	cmd := exec.Command("go", append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", out}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", args[len(args)-1], err, said)
	}
	return out, nil
}
