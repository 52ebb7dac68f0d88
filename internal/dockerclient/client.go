// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package dockerclient is the files in which docker and other clients of
// registries find logins and the names of credential helpers: where each
// client looks, and how regcred's helper is named there so that everything
// else in them stays as it was, byte for byte.
//
//	path, err := dockerclient.Docker.Path(env)
//	…
//	change, err := dockerclient.Plan(path, func(data []byte) ([]byte, error) {
//		return dockerclient.Put(data, want)
//	})
//	…
//	change, err = dockerclient.Apply(ctx, path, …)
//
// No error and no result that is not said to have them holds logins.
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
	// Docker is docker and everything that reads its config.json: compose,
	// buildx, nerdctl, crane, cosign, ko, oras, helm, regctl.
	Docker Client = "docker"

	// Containers is podman, skopeo and buildah, which read docker's file too,
	// but call Docker Hub by another name.
	Containers Client = "containers"
)

// Env is what of a process decides where its clients' files are.
type Env struct {
	Getenv func(string) string
	Dir    string // working directory; absolute
}

// errHome says that the home directory is not known.
var errHome = errors.New("HOME is not set, and this user has no home directory")

// Path returns the file that lasts in which a client looks for helpers,
// whether there is one or not. For [Docker] it is config.json in DOCKER_CONFIG
// or ~/.docker; for [Containers] that of REGISTRY_AUTH_FILE, or else auth.json
// in XDG_CONFIG_HOME/containers or ~/.config/containers. "podman login" writes
// to another one, which is in XDG_RUNTIME_DIR, is read first, and is gone after
// a restart of the machine.
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

// Readers are the clients whose file, as [Client.Path] has it, is that of c: c
// itself, and the other one if somebody has made it the same file.
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

// target is what the path of a client's file leads to.
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

// dockerDir is docker's directory.
func (e Env) dockerDir() (string, error) {
	if dir := e.Getenv("DOCKER_CONFIG"); dir != "" {
		return e.abs(dir), nil
	}
	home, err := e.home()
	return filepath.Join(home, ".docker"), err
}

// authFile is the one of podman's files that lasts.
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

// home is the home directory as docker finds it: HOME, or what the system has.
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

// Keys are the keys under which a client looks for registries (host[:port]) in
// credHelpers, exactly as they are. Docker Hub is docker.io for [Containers],
// and https://index.docker.io/v1/ for all that read docker's file.
//
// Source: docker/cli cli/config/configfile/file.go, getAuthConfigKey;
// go-containerregistry pkg/authn/keychain.go; oras-go
// registry/remote/credentials/registry.go; containers/image, which looks for
// the registry of a reference.
func (c Client) Keys(hosts []string) []string {
	keys := make([]string, len(hosts))
	for i, host := range hosts {
		if keys[i] = host; host == "docker.io" && c == Docker {
			keys[i] = "https://index.docker.io/v1/"
		}
	}
	return keys
}
