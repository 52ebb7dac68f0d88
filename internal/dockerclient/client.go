// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package dockerclient edits the files in which docker and other registry
// clients look for credentials and credential helpers. It knows where each
// client looks, and adds regcred's helper without changing any other byte.
//
//	path, err := dockerclient.Docker.Path(env)
//	…
//	change, err := dockerclient.Plan(path, func(data []byte) ([]byte, error) {
//		return dockerclient.Put(data, want)
//	})
//	…
//	change, err = dockerclient.Apply(ctx, path, …)
//
// Errors never contain credentials, nor do results unless documented.
package dockerclient

import (
	"errors"
	"os/user"
	"path/filepath"
	"runtime"
)

// Client is a family of programs that read the same files.
type Client string

// The families.
const (
	// Docker includes everything that reads docker's config.json: compose,
	// buildx, nerdctl, crane, cosign, ko, oras, helm, regctl.
	Docker Client = "docker"

	// Containers is podman, skopeo and buildah. They also read docker's file,
	// but use another name for Docker Hub.
	Containers Client = "containers"
)

// Env is the part of a process's environment that determines its clients'
// files.
type Env struct {
	Getenv func(string) string
	Dir    string // working directory; absolute
}

// errHome reports that the home directory is unknown.
var errHome = errors.New("HOME is not set, and this user has no home directory")

// Path returns the persistent file in which a client looks for helpers, whether
// it exists or not. For [Docker] it is config.json in DOCKER_CONFIG or
// ~/.docker; for [Containers] it is REGISTRY_AUTH_FILE, or else auth.json in
// XDG_CONFIG_HOME/containers or ~/.config/containers. "podman login" writes to
// another file in XDG_RUNTIME_DIR, which is read first and does not survive a
// reboot.
//
// Source: docker/cli cli/config/config.go; containers/image
// pkg/docker/config/config.go, getAuthFilePaths.
func (c Client) Path(e Env) (string, error) {
	if c == Docker {
		dir, err := e.dockerDir()
		return filepath.Join(dir, configFile), err
	}
	if file := e.Getenv("REGISTRY_AUTH_FILE"); file != "" {
		return e.abs(file), nil
	}
	return e.authFile()
}

// Readers returns the clients that use c's file: c, and the other one if both
// paths lead to the same file.
func (c Client) Readers(e Env) (list []Client) {
	file, err := c.target(e)
	for _, other := range []Client{Docker, Containers} {
		same, failed := other.target(e)
		if other == c || err == nil && failed == nil && same == file {
			list = append(list, other)
		}
	}
	return list
}

// target returns the file that the path of a client's file leads to.
func (c Client) target(e Env) (string, error) {
	path, err := c.Path(e)
	if err != nil {
		return "", err
	}
	return target(path)
}

const (
	configFile = "config.json"
	authFile   = "auth.json"
)

// dockerDir returns docker's directory.
func (e Env) dockerDir() (string, error) {
	if dir := e.Getenv("DOCKER_CONFIG"); dir != "" {
		return e.abs(dir), nil
	}
	home, err := e.home()
	return filepath.Join(home, ".docker"), err
}

// authFile returns podman's persistent file.
func (e Env) authFile() (string, error) {
	dir := e.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home, err := e.home()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(e.abs(dir), "containers", authFile), nil
}

func (e Env) abs(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(e.Dir, path)
}

// home returns the home directory as docker finds it: HOME, or the system's.
func (e Env) home() (string, error) {
	name := "HOME"
	if runtime.GOOS == "windows" {
		name = "USERPROFILE"
	}
	if home := e.Getenv(name); home != "" {
		return e.abs(home), nil
	}
	if u, err := user.Current(); err == nil && filepath.IsAbs(u.HomeDir) {
		return u.HomeDir, nil
	}
	return "", errHome
}

// Keys returns the keys under which a client looks for registries (host[:port])
// in credHelpers. Docker Hub is docker.io for [Containers], and
// https://index.docker.io/v1/ for all readers of docker's file.
//
// Source: docker/cli cli/config/configfile/file.go, getAuthConfigKey;
// go-containerregistry pkg/authn/keychain.go; oras-go
// registry/remote/credentials/registry.go; containers/image, which uses the
// registry of a reference.
func (c Client) Keys(hosts []string) []string {
	keys := make([]string, len(hosts))
	for i, host := range hosts {
		if keys[i] = host; host == "docker.io" && c == Docker {
			keys[i] = "https://index.docker.io/v1/"
		}
	}
	return keys
}
