// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package smoke

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/upstream/inside"
	"github.com/regcred/regcred/upstream/isolated"
	"github.com/regcred/regcred/upstream/node"
)

var kubeletProgram = flag.String("program", "", "path of a kubelet that inside/build has built; \"\" builds one")

func TestMain(m *testing.M) { node.Main(m) }

const password = canary.Marker + "robot"

// smokeTest is a node with the kubelet of package inside.
type smokeTest struct {
	net         *testcloud.FakeNetwork
	kubelet     *node.Kubelet
	dir, binDir string
	hosts       []string // each has a plugin named after the first part of the host
}

// TestThreeRegistries verifies pulls from three registries. The plugin of the first responds, the
// plugin of the second fails, and the third is added while the kubelet runs.
func TestThreeRegistries(t *testing.T) {
	node.SkipUnlessSupported(t)
	if *kubeletProgram == "" && !isolated.IsRequired("inside") {
		t.Skip("a kubelet is built for minutes: set REGCRED_TEST_REQUIRE=inside, or give the path of one by -program")
	}
	s := &smokeTest{net: node.NewFakeNetwork(t), dir: t.TempDir(), binDir: t.TempDir()}
	good, bad := s.startRegistry(t, "good.example", responseScript), s.startRegistry(t, "bad.example", "echo 'the cloud is away' >&2; exit 3\n")
	s.kubelet = node.StartKubelet(t, node.KubeletOptions{Program: kubeletPath(t), Runtime: node.StartContainerd(t, s.net), BinDir: s.binDir, ProviderConfig: s.kubeletConfig()})

	t.Run("answers", func(t *testing.T) { s.requirePodRuns(t, "good", good) })
	t.Run("fails", func(t *testing.T) { s.requirePullFailure(t, "bad", bad) })
	t.Run("is added", func(t *testing.T) {
		late := s.startRegistry(t, "late.example", responseScript)
		s.requirePodRuns(t, "late", late)
		if s.kubelet.LogRecords(t, "Changed credential provider configuration is in use", "late") == nil {
			t.Error("the log does not say that the configuration has changed")
		}
	})
	canary.AssertAbsent(t, "the kubelet's log", strings.Join(s.kubelet.LogRecords(t), "\n"))
}

// kubeletPath returns the path of a kubelet with regcred embedded. It builds the kubelet unless
// -program is set.
func kubeletPath(t *testing.T) string {
	if *kubeletProgram != "" {
		return *kubeletProgram
	}
	path := filepath.Join(t.TempDir(), "kubelet")
	must.Do(t, inside.Build(t.Context(), path))
	return path
}

// responseScript is a plugin that returns the registry's password for all requests.
const responseScript = `cat <<'END'
{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry","cacheDuration":"1h","auth":{"*.example":{"username":"robot","password":"` + password + `"}}}
END
`

// startRegistry starts a registry with one user, adds a plugin for it to the configuration, and pushes
// an image.
func (s *smokeTest) startRegistry(t *testing.T, host, script string) (image string) {
	name, _, _ := strings.Cut(host, ".")
	r := node.StartRegistry(t, s.net, host, testregistry.Options{Auth: testregistry.AuthBasic, Rules: []testregistry.Rule{{User: "robot", Pull: true}}})
	r.SetUser("robot", password)
	s.hosts = append(s.hosts, host)
	writeFile(t, filepath.Join(s.binDir, name), "#!/bin/sh\ncat >/dev/null\n"+script)
	text := "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
	for _, host := range s.hosts {
		name, _, _ := strings.Cut(host, ".")
		text += fmt.Sprintf("- {name: %s, matchImages: [%s], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1}\n", name, host)
	}
	writeFile(t, s.kubeletConfig(), text)
	return r.PushApp(t, "team/app", "v1")
}

func (s *smokeTest) kubeletConfig() string { return filepath.Join(s.dir, "config.yaml") }

// writeFile writes a file atomically.
func writeFile(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path+".new", []byte(text), 0o700))
	must.Do(t, os.Rename(path+".new", path))
}

// requirePodRuns starts a static pod with an image and waits until it runs.
func (s *smokeTest) requirePodRuns(t *testing.T, name, image string) {
	pod := node.NewPod("team", name, image)
	s.kubelet.AddStaticPod(t, pod)
	s.kubelet.WaitStaticPodRunning(t, pod)
}

// requirePullFailure checks that a static pod reports why it cannot start: in its event, and in its status both
// immediately and during the back-off.
func (s *smokeTest) requirePullFailure(t *testing.T, name, image string) {
	const why = `image credential providers: plugin "bad": exec: exit status 3; stderr: "the cloud is away"`
	pod := node.NewPod("team", name, image)
	s.kubelet.AddStaticPod(t, pod)
	t.Log(s.kubelet.WaitStaticPodWaiting(t, pod, why))
	if m := s.kubelet.WaitStaticPodWaiting(t, pod, "ImagePullBackOff"); !strings.Contains(m, why) {
		t.Errorf("while it waits: %q, want %q in it", m, why)
	}
	events := s.kubelet.LogRecords(t, "Event occurred", "Failed to pull image", `exit status 3; stderr: \"the cloud is away\"`)
	if len(events) == 0 {
		t.Errorf("no event says why: %q", s.kubelet.LogRecords(t, "Event occurred", "Failed to pull image"))
	} else {
		t.Log(events[0])
	}
	if s.kubelet.LogRecords(t, "Failed to provide credentials for image", `provider="bad"`, `image="bad.example/team/app"`) == nil {
		t.Error("the log does not say which provider failed")
	}
}
