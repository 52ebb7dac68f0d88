// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerclient

import (
	"path/filepath"
	"slices"
	"testing"
)

func TestPath(t *testing.T) {
	dir := t.TempDir()
	in := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	for _, tt := range []struct {
		client Client
		env    map[string]string
		want   string
	}{
		{ClientDocker, nil, in("home", ".docker", "config.json")},
		{ClientDocker, map[string]string{"DOCKER_CONFIG": in("d"), "HOME": ""}, in("d", "config.json")},
		{ClientDocker, map[string]string{"DOCKER_CONFIG": "d"}, in("wd", "d", "config.json")},
		{ClientContainers, nil, in("home", ".config", "containers", "auth.json")},
		{ClientContainers, map[string]string{"DOCKER_CONFIG": in("d"), "XDG_RUNTIME_DIR": in("run")}, in("home", ".config", "containers", "auth.json")},
		{ClientContainers, map[string]string{"XDG_CONFIG_HOME": in("x"), "HOME": ""}, in("x", "containers", "auth.json")},
		{ClientContainers, map[string]string{"REGISTRY_AUTH_FILE": in("a.json"), "HOME": ""}, in("a.json")},
	} {
		env := Env{Dir: in("wd"), Getenv: func(name string) string {
			if v, ok := tt.env[name]; ok {
				return v
			}
			return map[string]string{"HOME": in("home"), "USERPROFILE": in("home")}[name]
		}}
		if got, err := tt.client.Path(env); err != nil || got != tt.want {
			t.Errorf("%s with %v: got %s (%v), want %s", tt.client, tt.env, got, err, tt.want)
		}
	}
}

// TestPathHomeUnset verifies that Path uses the home directory from the system's user database if
// HOME is not set, as docker does.
func TestPathHomeUnset(t *testing.T) {
	path, err := ClientDocker.Path(Env{Dir: "/", Getenv: func(string) string { return "" }})
	if err == nil && (!filepath.IsAbs(path) || path == "/.docker/config.json") {
		t.Errorf("got %s", path)
	}
	if err != nil && err != errNoHomeDir {
		t.Error(err)
	}
}

func TestKeys(t *testing.T) {
	hosts := []string{"docker.io", "r.example:5000"}
	if got, want := ClientDocker.HelperKeys(hosts), []string{"https://index.docker.io/v1/", "r.example:5000"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := ClientContainers.HelperKeys(hosts); !slices.Equal(got, hosts) {
		t.Errorf("got %q, want %q", got, hosts)
	}
}
