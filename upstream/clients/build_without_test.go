// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package clients

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/canary"
)

// TestDockerBuild: without BuildKit docker asks for all registries that it
// knows of, whatever the image is, and a failure hides the rest.
func TestDockerBuild(t *testing.T) {
	requireRun(t)
	if !*all {
		t.Skip("it starts daemons: go test ./clients -args -all")
	}
	c := &client{name: "docker build", program: "docker", pkg: "docker.io", content: app, daemon: true, pull: dockerBuild}
	requireClient(t, c)
	b := newBench(t, startSite(t), c)
	some := inDocker(helpers(private, private+":5000", public))
	fails := providers(t, b.site, "part", canary.Password, private, private+":5000") +
		strings.SplitAfter(b.broken, "providers:\n")[1]
	for _, tt := range []struct {
		name, helper string
		by           by
		ok           bool
		want         []string
	}{
		{"credHelpers", b.right, some, true, []string{private, private + ":5000", public}},
		{"credsStore", b.right, inDocker(store), true, nil},
		{"a failure", fails, some, true, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := b.pull(t, private+":5000", tt.helper, tt.by)
			got := strings.Split(o.asked(), ", ")
			slices.Sort(got)
			t.Log(o.ok, got, o.calls, o.said)
		})
	}
}

// dockerBuild builds an image onto the image, without BuildKit.
func dockerBuild(t *testing.T, j job) (ok bool, said string) {
	t.Helper()
	writeFile(t, filepath.Join(j.home, "context", "Dockerfile"), "FROM "+j.image+"\n")
	j.environ = append(j.environ, "DOCKER_BUILDKIT=0")
	return withDaemon("build --pull HOME/context")(t, j)
}
