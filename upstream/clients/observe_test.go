// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package clients

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/upstream/plugins"
)

// privateNames lists the private registry's names; dockerHubNames lists the names of Docker Hub.
var (
	privateNames   = []string{privateHost, privateHost + ":443", privateHost + ":5000"}
	dockerHubNames = []string{"docker.io", "index.docker.io", "registry-1.docker.io"}
)

// clientObserver observes one client.
type clientObserver struct {
	site   *testSite
	client *client

	// rightConfig, wrong and path are configurations of the helper with the right password, with a wrong
	// one, and with a path in the pattern.
	rightConfig, wrongPasswordConfig, pathPatternConfig string
	publicFailureConfig, privateFailureConfig           string // configurations with a plugin that fails for the public or the private registry
}

func newClientObserver(t *testing.T, s *testSite, c *client) *clientObserver {
	t.Helper()
	return &clientObserver{
		site: s, client: c,
		rightConfig:         providersConfig(t, s, "right", canary.PasswordSecret, slices.Concat(privateNames, dockerHubNames)...),
		wrongPasswordConfig: providersConfig(t, s, "wrong", "wrong", privateNames...),
		publicFailureConfig: providersConfig(t, s, "missing", "", publicHost), privateFailureConfig: providersConfig(t, s, "missing", "", privateNames...),
		pathPatternConfig: providersConfig(t, s, "path", canary.PasswordSecret, privateHost+":5000/team"),
	}
}

// providersConfig returns a CredentialProviderConfig with one credential for all patterns. If the
// password is empty, the plugin fails.
func providersConfig(t *testing.T, s *testSite, name, password string, patterns ...string) string {
	t.Helper()
	file := filepath.Join(s.dir, "password-"+name)
	if password != "" {
		writeFile(t, file, password+"\n")
	}
	var matches, hosts strings.Builder
	for _, pattern := range patterns {
		host, _, _ := strings.Cut(pattern, "/")
		fmt.Fprintf(&matches, "      - %q\n", pattern)
		fmt.Fprintf(&hosts, "      - --host=%s\n", host)
	}
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
  - name: %s
    apiVersion: credentialprovider.kubelet.k8s.io/v1
    defaultCacheDuration: 0s
    matchImages:
%s    args:
      - --username=%s
      - --password-file=%s
%s`, plugins.Static, &matches, testUser, file, &hosts)
}

// helperSetting is a way to configure the helper in a client: files in HOME and environment
// variables.
type helperSetting struct {
	name  string
	files map[string]string
	extra []string
}

const credsStoreConfig = `{"credsStore": "regcred"}`

// credHelpersConfig returns a config.json that sets the helper in credHelpers for these keys.
func credHelpersConfig(keys ...string) string {
	var list []string
	for _, key := range keys {
		list = append(list, fmt.Sprintf("%q: %q", key, "regcred"))
	}
	return `{"credHelpers": {` + strings.Join(list, ", ") + `}}`
}

// dockerConfigSetting returns the setting with a config.json that all clients read.
func dockerConfigSetting(config string) helperSetting {
	return helperSetting{"", map[string]string{".docker/config.json": config}, []string{"DOCKER_CONFIG=HOME/.docker"}}
}

// forAllRegistries returns the setting with the helper for all registries.
func forAllRegistries() helperSetting {
	return dockerConfigSetting(credHelpersConfig(slices.Concat(privateNames, dockerHubNames, []string{hubURL, publicHost})...))
}

// helperFileSettings returns a setting for each file in which a client may find the helper.
func helperFileSettings() []helperSetting {
	config := credHelpersConfig(privateHost + ":5000")
	in := func(name, file string, extra ...string) helperSetting {
		return helperSetting{name, map[string]string{file: config}, extra}
	}
	return []helperSetting{
		in("$DOCKER_CONFIG", "elsewhere/config.json", "DOCKER_CONFIG=HOME/elsewhere"),
		in("~/.docker", ".docker/config.json"),
		in("$REGISTRY_AUTH_FILE", "auth.json", "REGISTRY_AUTH_FILE=HOME/auth.json"),
		in("$XDG_RUNTIME_DIR/containers", "run/containers/auth.json"),
		{"registries.conf", map[string]string{".config/containers/registries.conf": `credential-helpers = ["containers-auth.json", "regcred"]` + "\n"}, nil},
		in("$HELM_REGISTRY_CONFIG", "helm.json", "HELM_REGISTRY_CONFIG=HOME/helm.json"),
	}
}

// pull runs the client with a configuration of the helper, and checks the helper's arguments. what
// is the name of the subtest.
func (b *clientObserver) pull(t *testing.T, what, host, helper string, by helperSetting) (o outcome) {
	t.Helper()
	r := &clientRun{site: b.site, client: b.client, image: host + "/" + b.client.content, helper: helper, files: by.files, extra: by.extra}
	t.Run(strings.NewReplacer(" ", "-", "/", "_").Replace(what), func(t *testing.T) {
		o = r.runClient(t)
		t.Logf("from %s: pulled %t, asked %s, in %d calls", host, o.ok, o.queriedServers(), len(o.calls))
		for _, c := range o.calls {
			if args := strings.Join(c.Args, " "); args != "get" && args != "list" {
				t.Errorf("%s calls the helper with %q", b.client.name, c.Args)
			}
		}
	})
	return o
}

// observeTraits determines the client's traits and verifies that it can pull.
func (b *clientObserver) observeTraits(t *testing.T) (seen clientTraits) {
	t.Helper()
	for _, host := range privateNames {
		o := b.pull(t, "private at "+host, host, b.rightConfig, forAllRegistries())
		if got := o.queriedServers(); !o.ok || got != host {
			t.Errorf("a pull from %s: ok %t, asked %s:\n%s", host, o.ok, got, o.said)
		}
	}
	hub := b.pull(t, "Docker Hub", "docker.io", b.rightConfig, forAllRegistries())
	if !hub.ok {
		t.Errorf("a pull from Docker Hub: asked %s:\n%s", hub.queriedServers(), hub.said)
	}
	seen.Hub = hub.queriedServers()
	seen.Stderr = b.observeHelperStderr(t)
	seen.WrongPassword = b.wrongPasswordMessage(t)
	seen.Public, seen.PublicFailure = b.observePublicPull(t)
	seen.PrivateFailure = reactionToFailure(b.pull(t, "private while the helper fails", privateHost+":5000", b.privateFailureConfig, forAllRegistries()))
	seen.Patterns = b.observePatternSupport(t)
	seen.HubKeys, seen.Store, seen.HubStore, seen.Files = "-", "-", "-", "proxy.exec"
	if !b.client.ownConfig {
		seen.HubKeys, seen.Files = b.observeDockerHubKeys(t), b.observeHelperFiles(t)
		seen.Store, seen.HubStore = b.observeCredsStore(t, privateHost+":5000"), b.observeCredsStore(t, "docker.io")
	}
	return seen
}

// observeHelperStderr returns what the client does with the helper's standard error if the helper succeeds.
func (b *clientObserver) observeHelperStderr(t *testing.T) string {
	t.Helper()
	const text = "[said aside]"
	by := forAllRegistries()
	by.extra = append(by.extra, "REGCRED_TEST_STDERR="+text)
	o := b.pull(t, "stderr", privateHost+":5000", b.rightConfig, by)
	switch {
	case !o.ok:
		return breaksText
	case strings.Contains(o.said, text):
		return shownText
	default:
		return "-"
	}
}

// wrongPasswordMessage returns the client's message for a wrong password.
func (b *clientObserver) wrongPasswordMessage(t *testing.T) string {
	t.Helper()
	o := b.pull(t, "wrong password", privateHost+":5000", b.wrongPasswordConfig, forAllRegistries())
	if o.ok || o.queriedServers() != privateHost+":5000" {
		t.Errorf("a pull with a wrong password: ok %t, asked %s:\n%s", o.ok, o.queriedServers(), o.said)
	}
	for _, text := range []string{"401 Unauthorized", "UNAUTHORIZED", "unauthorized", "no such manifest", "manifest unknown"} {
		if strings.Contains(o.said, text) {
			return text
		}
	}
	return o.said
}

// observePublicPull pulls an image that needs no credential, with a working helper and with a failing one.
func (b *clientObserver) observePublicPull(t *testing.T) (asked, onError string) {
	t.Helper()
	o := b.pull(t, "public", publicHost, b.rightConfig, forAllRegistries())
	if !o.ok {
		t.Errorf("a pull of a public image: asked %s:\n%s", o.queriedServers(), o.said)
	}
	for _, c := range o.calls {
		if c.Answer != "not found" {
			t.Errorf("the helper's response for a public registry is %q", c.Answer)
		}
	}
	failing := b.pull(t, "public while the helper fails", publicHost, b.publicFailureConfig, forAllRegistries())
	for _, c := range failing.calls {
		if c.Answer != "error" {
			t.Errorf("the helper's response while its plugin fails is %q", c.Answer)
		}
	}
	return o.queriedServers(), reactionToFailure(failing)
}

// reactionToFailure returns the client's reaction to a failing helper.
func reactionToFailure(o outcome) string {
	switch {
	case o.ok && len(o.calls) == 0:
		return "-"
	case o.ok:
		return continuesPull
	case strings.Contains(o.said, plugins.Static):
		return stopsWithReason
	default:
		return failsWithoutReason
	}
}

// observePatternSupport returns the settings with which the client gets a credential for a pattern with a path.
func (b *clientObserver) observePatternSupport(t *testing.T) string {
	t.Helper()
	repository, _, _ := strings.Cut(b.client.content, ":")
	var ways []string
	for _, way := range []struct {
		name string
		by   helperSetting
	}{
		{"credHelpers by registry", dockerConfigSetting(credHelpersConfig(privateHost + ":5000"))},
		{"credHelpers by repository", dockerConfigSetting(credHelpersConfig(privateHost + ":5000/" + repository))},
		{"credsStore", dockerConfigSetting(credsStoreConfig)},
	} {
		if b.pull(t, "pattern with a path by "+way.name, privateHost+":5000", b.pathPatternConfig, way.by).ok {
			ways = append(ways, way.name)
		}
	}
	return joinWithAnd(ways)
}

func (b *clientObserver) observeDockerHubKeys(t *testing.T) string {
	t.Helper()
	var keys []string
	for _, key := range append(slices.Clone(dockerHubNames), hubURL) {
		if b.pull(t, "Docker Hub by "+key, "docker.io", b.rightConfig, dockerConfigSetting(credHelpersConfig(key))).ok {
			keys = append(keys, key)
		}
	}
	return joinWithAnd(keys)
}

// observeCredsStore returns the client's queries to a credsStore for an image of a registry.
func (b *clientObserver) observeCredsStore(t *testing.T, host string) string {
	t.Helper()
	o := b.pull(t, host+" by credsStore", host, b.rightConfig, dockerConfigSetting(credsStoreConfig))
	if asked := len(o.calls) > 0; o.ok != asked {
		t.Errorf("a pull from %s with a credsStore: ok %t, asked %s:\n%s", host, o.ok, o.queriedServers(), o.said)
	}
	return o.queriedServers()
}

func (b *clientObserver) observeHelperFiles(t *testing.T) string {
	t.Helper()
	var found []string
	for _, place := range helperFileSettings() {
		if b.pull(t, "named in "+place.name, privateHost+":5000", b.rightConfig, place).ok {
			found = append(found, place.name)
		}
	}
	return joinWithAnd(found)
}
