// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package clients

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/upstream/plugins"
)

// TestDockerBuild verifies that without BuildKit docker calls the helper for all configured
// registries, not only for the registry of the base image.
func TestDockerBuild(t *testing.T) {
	isolatedTests.SkipUnlessAvailable(t)
	if !*testAllClients {
		t.Skip("it starts daemons: go test ./clients -args -all")
	}
	c := &client{name: "docker build", program: "docker", pkg: "docker.io", content: appRepository, daemon: true, pull: dockerBuild}
	requireClient(t, c)
	b := newClientObserver(t, startSite(t), c)
	keys := []string{privateHost, privateHost + ":5000", publicHost}
	listed := append([]string{"docker.io", hubURL, "list"}, privateNames...)
	_, broken, _ := strings.Cut(b.publicFailureConfig, "providers:\n")
	partly := providersConfig(t, b.site, "partly", canary.PasswordSecret, keys[:2]...) + strings.Replace(broken, plugins.Static, secondRepository, 1)
	for _, tt := range []struct {
		name, helper string
		by           helperSetting
		want         []string // inputs, in any order
	}{
		{"credHelpers", b.rightConfig, dockerConfigSetting(credHelpersConfig(keys...)), keys},
		{"credsStore", b.rightConfig, dockerConfigSetting(credsStoreConfig), listed},
	} {
		o := b.pull(t, tt.name, privateHost+":5000", tt.helper, tt.by)
		if diff := cmp.Diff(slices.Sorted(slices.Values(tt.want)), o.sortedQueries()); diff != "" || !o.ok {
			t.Errorf("%s: built %t, asked (-want +got):\n%s\n%s", tt.name, o.ok, diff, o.said)
		}
	}
	// The number of queries before the failure is random, and so is the result. Only log them.
	o := b.pull(t, "another fails", privateHost+":5000", partly, dockerConfigSetting(credHelpersConfig(keys...)))
	t.Logf("%s with a plugin that fails for another registry: built %t, asked %s:\n%s", c.requireInstalled(t), o.ok, o.queriedServers(), o.said)
}

func (o outcome) sortedQueries() []string {
	list := strings.Split(o.queriedServers(), ", ")
	slices.Sort(list)
	return list
}

// dockerBuild builds an image without BuildKit. j's image is its base image.
func dockerBuild(t *testing.T, j pullJob) (ok bool, said string) {
	t.Helper()
	writeFile(t, filepath.Join(j.home, "context", "Dockerfile"), "FROM "+j.image+"\n")
	j.environ = append(j.environ, "DOCKER_BUILDKIT=0")
	return runDaemonJob("build --pull HOME/context")(t, j)
}
