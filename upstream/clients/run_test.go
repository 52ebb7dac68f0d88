// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package clients

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

// clientRun is one run of a client.
type clientRun struct {
	site   *testSite
	client *client
	image  string
	helper string            // CredentialProviderConfig
	files  map[string]string // files in HOME that configure the helper
	extra  []string          // environment variables in addition to HOME
}

// outcome is the result of a run.
type outcome struct {
	ok    bool
	said  string // standard output and error
	calls []helperCall
}

// helperCall is a line written by the recorder.
type helperCall struct {
	Args          []string
	Stdin, Answer string
}

// queriedServers returns the helper's inputs in order, without consecutive repetitions. It returns "-" if
// there are none.
func (o outcome) queriedServers() string {
	list := []string{}
	for _, c := range o.calls {
		what := strings.Join(c.Args, " ")
		if what == "get" {
			what = c.Stdin
		}
		list = append(list, what)
	}
	return joinWithAnd(slices.Compact(list))
}

func joinWithAnd(list []string) string {
	if len(list) == 0 {
		return "-"
	}
	return strings.Join(list, ", ")
}

func (r *clientRun) runClient(t *testing.T) outcome {
	t.Helper()
	home := shortDir(t)
	for _, dir := range []string{"run", "tmp"} {
		must.Do(t, os.Mkdir(filepath.Join(home, dir), 0o700))
	}
	writeFile(t, filepath.Join(home, "providers.yaml"), r.helper)
	for name, content := range r.files {
		writeFile(t, filepath.Join(home, name), content)
	}
	ok, said := r.client.pull(t, pullJob{r.client.path(), r.image, home, r.environ(home)})
	o := outcome{ok, said, readCalls(t, filepath.Join(home, "calls"))}
	canary.AssertAbsent(t, "output of "+r.client.name, said)
	return o
}

// shortDir creates a directory for podman's container state. Podman limits that path to 50 characters.
func shortDir(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("/run", "c"))(t)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// environ returns the complete environment of a client.
func (r *clientRun) environ(home string) []string {
	environ := []string{
		"PATH=" + filepath.Join(isolatedTests.Dir(), "recorder") + ":" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home + "/tmp",
		"XDG_RUNTIME_DIR=" + home + "/run", "XDG_CONFIG_HOME=" + home + "/.config",
		"XDG_CACHE_HOME=" + home + "/.cache", "XDG_DATA_HOME=" + home + "/.local/share",
		"SSL_CERT_FILE=" + r.site.caFile,
		"REGCRED_CONFIG=" + home + "/providers.yaml", "REGCRED_BIN_DIR=" + filepath.Join(isolatedTests.Dir(), "plugins"),
		"REGCRED_TEST_HELPER=" + filepath.Join(isolatedTests.Dir(), "helper", helperName),
		"REGCRED_TEST_CALLS=" + home + "/calls",
	}
	for _, variable := range r.extra {
		environ = append(environ, strings.ReplaceAll(variable, "HOME/", home+"/"))
	}
	return environ
}

func readCalls(t *testing.T, path string) (list []helperCall) {
	t.Helper()
	content, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(content) {
		var c helperCall
		must.Do(t, json.Unmarshal(line, &c))
		list = append(list, c)
	}
	return list
}
