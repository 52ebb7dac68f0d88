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

	"github.com/regcred/regcred/internal/must"
)

// mirrorHost is the address of the pull-through cache.
const mirrorHost = "127.0.0.5:5000"

// pullThrough pulls an image through a pull-through cache of its registry.
func pullThrough(t *testing.T, j pullJob) (ok bool, said string) {
	t.Helper()
	return pullThroughMirror(t, j, "", appRepository)
}

// pullThroughMirror starts distribution's registry as a cache of j's registry and pulls images through
// it. lifetime is an optional setting for how long the cache keeps a credential.
func pullThroughMirror(t *testing.T, j pullJob, lifetime string, images ...string) (ok bool, said string) {
	t.Helper()
	host, _, _ := strings.Cut(j.image, "/")
	if host == "docker.io" {
		host = "registry-1.docker.io"
	}
	config := writeFile(t, filepath.Join(j.home, "registry.yml"), fmt.Sprintf(`version: 0.1
storage: {filesystem: {rootdirectory: %s}}
http: {addr: %q}
proxy:
  remoteurl: https://%s
  exec: {command: %s%s}
`, filepath.Join(j.home, "storage"), mirrorHost, host, helperName, lifetime))
	cmd := exec.Command(j.program, "serve", config)
	cmd.Env, cmd.Dir = j.environ, j.home
	log := startServer(t, cmd, "tcp", mirrorHost)
	ok = true
	for _, image := range images {
		repository, tag, _ := strings.Cut(image, ":")
		status, body := httpGet(t, "http://"+mirrorHost+"/v2/"+repository+"/manifests/"+tag)
		ok = ok && status == http.StatusOK
		said += body + "\n"
	}
	return ok, said + log()
}

func httpGet(t *testing.T, url string) (status int, body string) {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	r.Header.Set("Accept", "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json")
	answer := must.Get(http.DefaultClient.Do(r))(t)
	defer answer.Body.Close()
	content := must.Get(io.ReadAll(io.LimitReader(answer.Body, 1<<20)))(t)
	return answer.StatusCode, string(content)
}
