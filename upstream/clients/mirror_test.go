// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package clients

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mirror is where the pull-through cache listens.
const mirror = "127.0.0.5:5000"

// pullThrough starts distribution's registry as a cache of the image's
// registry, and asks it for the image.
func pullThrough(t *testing.T, j job) (ok bool, said string) {
	t.Helper()
	host, rest, _ := strings.Cut(j.image, "/")
	repository, tag, _ := strings.Cut(rest, ":")
	if host == "docker.io" {
		host = "registry-1.docker.io"
	}
	config := writeFile(t, filepath.Join(j.home, "registry.yml"), fmt.Sprintf(`version: 0.1
storage: {filesystem: {rootdirectory: %s}}
http: {addr: %q}
proxy:
  remoteurl: https://%s
  exec: {command: %s}
`, filepath.Join(j.home, "storage"), mirror, host, helperName))
	cmd := exec.Command(j.program, "serve", config)
	cmd.Env, cmd.Dir = j.environ, j.home
	log := serve(t, cmd, "tcp", mirror)
	answer, err := http.Get("http://" + mirror + "/v2/" + repository + "/manifests/" + tag)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode == http.StatusOK, fmt.Sprintf("%s\n%s\n%s", answer.Status, body, log())
}
