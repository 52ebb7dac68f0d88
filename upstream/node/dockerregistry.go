// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/regcred/regcred/internal/testenv"
)

// DockerRegistry is Debian's docker-registry on a port of 127.0.0.1, with htpasswd
// authentication.
type DockerRegistry struct {
	Host string // host in image references

	process *testProcess
	users   map[string]string
}

// StartDockerRegistry starts a registry. users maps user names to passwords.
func StartDockerRegistry(t testing.TB, users map[string]string) *DockerRegistry {
	t.Helper()
	dir := tempDir(t, "registry")
	host := testenv.FreeAddr(t)
	file := writeFile(t, writeHtpasswd(t, users), dir, "htpasswd")
	config := writeFile(t, fmt.Sprintf(`version: 0.1
log: {level: info}
storage: {filesystem: {rootdirectory: %s}}
http: {addr: %s}
auth: {htpasswd: {realm: test, path: %s}}
`, filepath.Join(dir, "storage"), host, file), dir, "registry.yml")
	r := &DockerRegistry{Host: host, users: maps.Clone(users), process: newProcess(t, dir, nil, "docker-registry")}
	r.process.start(t, "serve", config)
	r.process.waitReady(t, func(ctx context.Context) error {
		_, err := httpGet(ctx, http.DefaultClient, "http://"+host+"/")
		return err
	})
	return r
}

// writeHtpasswd returns the content of an htpasswd file with these users.
func writeHtpasswd(t testing.TB, users map[string]string) string {
	t.Helper()
	var lines strings.Builder
	for user, password := range users {
		cmd := exec.Command("htpasswd", "-niB", "-C", "4", user)
		cmd.Stdin = strings.NewReader(password)
		line, err := cmd.Output()
		if err != nil {
			t.Fatalf("htpasswd: %v", err)
		}
		fmt.Fprintln(&lines, strings.TrimSpace(string(line)))
	}
	return lines.String()
}

// PushApp works like [Registry.PushApp], but the registry must have at least one user.
func (r *DockerRegistry) PushApp(t testing.TB, repo, tag string) (image string) {
	t.Helper()
	users := slices.Sorted(maps.Keys(r.users))
	if len(users) == 0 {
		t.Fatal("a registry without users cannot be pushed to")
	}
	image = r.Host + "/" + repo + ":" + tag
	pushApp(t, image, remote.WithAuth(&authn.Basic{Username: users[0], Password: r.users[users[0]]}))
	return image
}

// LogLines returns the lines of the registry's log that contain all texts.
func (r *DockerRegistry) LogLines(t testing.TB, texts ...string) []string {
	t.Helper()
	return r.process.matchingLogLines(t, texts...)
}
