// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package dockerclient edits the files in which docker and other registry
// clients look for credentials and credential helpers. It knows where each
// client looks, and adds regcred's helper without changing any other byte.
//
//	path, err := dockerclient.ClientDocker.Path(env)
//	…
//	change, err := dockerclient.PlanChange(path, func(data []byte) ([]byte, error) {
//		return dockerclient.PutEntries(data, want)
//	})
//	…
//	change, err = dockerclient.ApplyChange(ctx, path, …)
//
// Errors never contain credentials. Results contain credentials only if this is documented.
package dockerclient

import (
	"errors"
	"os/user"
	"path/filepath"
	"runtime"
)

// Client is a family of programs that read the same files.
type Client string

// The supported clients.
const (
	// ClientDocker is docker and every program that reads its config.json: compose,
	// buildx, nerdctl, crane, cosign, ko, oras, helm, regctl.
	ClientDocker Client = "docker"

	// ClientContainers is podman, skopeo and buildah. They also read docker's file, but
	// use a different name for Docker Hub.
	ClientContainers Client = "containers"
)

// Env contains the parts of a process's environment that determine the paths of clients' files.
type Env struct {
	Getenv func(string) string
	Dir    string // working directory; absolute
}

var errNoHomeDir = errors.New("HOME is not set, and this user has no home directory")

// Path returns the persistent file in which a client looks for helpers, whether it
// exists or not. For [ClientDocker], this is config.json in DOCKER_CONFIG or ~/.docker. For
// [ClientContainers], it is REGISTRY_AUTH_FILE or else auth.json in
// XDG_CONFIG_HOME/containers or ~/.config/containers. "podman login" writes to a
// different file in XDG_RUNTIME_DIR, which is read first and does not survive a reboot.
//
// Source: docker/cli cli/config/config.go; containers/image
// pkg/docker/config/config.go, getAuthFilePaths.
func (c Client) Path(e Env) (string, error) {
	if c == ClientDocker {
		dir, err := e.dockerDir()
		return filepath.Join(dir, configFileName), err
	}
	if file := e.Getenv("REGISTRY_AUTH_FILE"); file != "" {
		return e.absPath(file), nil
	}
	return e.authFile()
}

// ClientsSharingFile returns the clients that use c's file: c, and the other client if both
// paths lead to the same file.
func (c Client) ClientsSharingFile(e Env) (list []Client) {
	file, err := c.resolvedPath(e)
	for _, other := range []Client{ClientDocker, ClientContainers} {
		same, failed := other.resolvedPath(e)
		if other == c || err == nil && failed == nil && same == file {
			list = append(list, other)
		}
	}
	return list
}

// resolvedPath returns the path of the client's file with all symlinks resolved.
func (c Client) resolvedPath(e Env) (string, error) {
	path, err := c.Path(e)
	if err != nil {
		return "", err
	}
	return resolveTarget(path)
}

const (
	configFileName = "config.json"
	authFileName   = "auth.json"
)

func (e Env) dockerDir() (string, error) {
	if dir := e.Getenv("DOCKER_CONFIG"); dir != "" {
		return e.absPath(dir), nil
	}
	home, err := e.homeDir()
	return filepath.Join(home, ".docker"), err
}

// authFile returns podman's persistent file.
func (e Env) authFile() (string, error) {
	dir := e.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home, err := e.homeDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(e.absPath(dir), "containers", authFileName), nil
}

func (e Env) absPath(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(e.Dir, path)
}

// homeDir returns the home directory as docker does: from HOME, or else from the system's user
// database.
func (e Env) homeDir() (string, error) {
	name := "HOME"
	if runtime.GOOS == "windows" {
		name = "USERPROFILE"
	}
	if home := e.Getenv(name); home != "" {
		return e.absPath(home), nil
	}
	if u, err := user.Current(); err == nil && filepath.IsAbs(u.HomeDir) {
		return u.HomeDir, nil
	}
	return "", errNoHomeDir
}

// HelperKeys returns the keys under which a client looks for registries (host[:port])
// in credHelpers. Docker Hub's key is docker.io for [ClientContainers], and
// https://index.docker.io/v1/ for all readers of docker's file.
//
// Source: docker/cli cli/config/configfile/file.go, getAuthConfigKey;
// go-containerregistry pkg/authn/keychain.go; oras-go
// registry/remote/credentials/registry.go; containers/image, which uses the registry of
// a reference.
func (c Client) HelperKeys(hosts []string) []string {
	keys := make([]string, len(hosts))
	for i, host := range hosts {
		if keys[i] = host; host == "docker.io" && c == ClientDocker {
			keys[i] = "https://index.docker.io/v1/"
		}
	}
	return keys
}
