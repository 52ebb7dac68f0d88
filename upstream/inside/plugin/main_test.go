// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/credentialprovider"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/inside/plugin"
	"github.com/regcred/regcred/upstream/kubelet"
)

func TestMain(m *testing.M) {
	kubelet.DisableLog()
	// Register the kubelet's own metrics first: their registration panics if metrics with the same
	// names exist.
	if err := registerOwnMetrics(); err != nil {
		fmt.Fprintln(os.Stderr, "main_test:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func registerOwnMetrics() error {
	dir, err := os.MkdirTemp("", "inside-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "config.yaml")
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "p"), []byte("#!/bin/sh\n"), 0o700),
		os.WriteFile(path, []byte(configYAML(provider{})), 0o600),
		kubelet.RegisterPlugins(path, dir, kubelet.TokenFuncs{}),
	)
}

// implementation is the kubelet's package or this package.
type implementation struct {
	name     string
	register func(path, binDir string, tokens kubelet.TokenFuncs) error
	keyring  func(namespace, pod, podUID, serviceAccount string) credentialprovider.DockerKeyring
}

var (
	theirs = implementation{"kubelet", kubelet.RegisterPlugins, kubelet.NewKeyring}
	ours   = implementation{"regcred", func(path, binDir string, tokens kubelet.TokenFuncs) error {
		return plugin.RegisterCredentialProviderPlugins(path, binDir, tokens.Token, tokens.ServiceAccount)
	}, plugin.NewExternalCredentialProviderDockerKeyring}
	implementations = []implementation{theirs, ours}
)

// password is a password that can be searched for in a test's output.
const password = "canary-password-4b1d"

// provider is a provider in a configuration, and its executable. The comments show the values of
// empty fields.
type provider struct {
	name          string // "p"
	match         string // a list in YAML: "[registry.example]"
	api           string // v1
	cache         string // defaultCacheDuration in the configuration: "0s"
	extraYAML     string // more fields of the provider in YAML, each line indented by two
	script        string // shell script; "" prints the response
	answer        string // response; "" is generated from the fields below
	scope         string // cacheKeyType of the generated response: "Image"
	cacheDuration string // cacheDuration of the generated response: none
	key           string // key in the generated response's auth: "registry.example"
}

func valueOrDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func (p provider) displayName() string { return valueOrDefault(p.name, "p") }

const protocolGroup = "credentialprovider.kubelet.k8s.io/"

// configYAML returns a configuration with these providers.
func configYAML(list ...provider) string {
	var b strings.Builder
	b.WriteString("apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n")
	for _, p := range list {
		fmt.Fprintf(&b, "- name: %s\n  matchImages: %s\n  defaultCacheDuration: %s\n  apiVersion: %s%s\n%s", p.displayName(),
			valueOrDefault(p.match, "[registry.example]"), valueOrDefault(p.cache, "0s"), protocolGroup, valueOrDefault(p.api, "v1"), p.extraYAML)
	}
	return b.String()
}

// executable returns the script of a provider's executable. The script appends each request, as one
// line, to the file NAME.ran next to the executable.
func (p provider) executable() string {
	answer := p.answer
	if answer == "" {
		var lasting string
		if p.cacheDuration != "" {
			lasting = fmt.Sprintf("%q:%q,", "cacheDuration", p.cacheDuration)
		}
		answer = fmt.Sprintf(`{"kind":"CredentialProviderResponse","apiVersion":"%s%s","cacheKeyType":"%s",%s"auth":{"%s":{"username":"user of %s","password":"%s"}}}`,
			protocolGroup, valueOrDefault(p.api, "v1"), valueOrDefault(p.scope, "Image"), lasting, valueOrDefault(p.key, "registry.example"), p.displayName(), password)
	}
	return "#!/bin/sh\ncat >>\"$0.ran\"\n" + valueOrDefault(p.script, "cat <<'END'\n"+answer+"\nEND\n")
}

// pluginDir is a directory with executables, and a configuration file.
type pluginDir struct {
	dir, path string
}

func newPluginDir(t testing.TB, list ...provider) *pluginDir {
	t.Helper()
	at := &pluginDir{dir: t.TempDir()}
	at.path = filepath.Join(t.TempDir(), "config.yaml")
	for _, p := range list {
		writeFile(t, filepath.Join(at.dir, p.displayName()), p.executable(), 0o700)
	}
	writeFile(t, at.path, configYAML(list...), 0o600)
	return at
}

// takeRuns returns the requests that a provider's executable has received.
func (at *pluginDir) takeRuns(t testing.TB, name string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(at.dir, name+".ran"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' })
}

func writeFile(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	// Write to a temporary file and rename it: another test's child process may still have the old
	// file open for writing (ETXTBSY).
	part := path + ".part"
	must.Do(t, os.WriteFile(part, []byte(text), mode))
	must.Do(t, os.Rename(part, path))
}

// fakeTokenServer simulates the API server through the kubelet's two functions.
type fakeTokenServer struct {
	lookupSettings

	mu       sync.Mutex
	requests []*authenticationv1.TokenRequest
}

// lookupSettings configures a server.
type lookupSettings struct {
	annotations map[string]string
	missing     bool // the service account does not exist
	refuses     bool // token requests fail
	perPod      bool // each pod gets a different token
}

func (s *fakeTokenServer) tokenFuncs() kubelet.TokenFuncs {
	return kubelet.TokenFuncs{
		ServiceAccount: func(namespace, name string) (*corev1.ServiceAccount, error) {
			if s.missing {
				return nil, errors.New("there is no such account")
			}
			return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid of " + name), Annotations: s.annotations}}, nil
		},
		Token: func(_, name string, tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
			if s.refuses {
				return nil, errors.New("tokens are refused")
			}
			s.mu.Lock()
			s.requests = append(s.requests, tr)
			s.mu.Unlock()
			token := "canary-token-of-" + name
			if s.perPod {
				token += "-for-" + tr.Spec.BoundObjectRef.Name
			}
			return &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: token}}, nil
		},
	}
}

// formatCredentials formats credentials as user names and service accounts.
func formatCredentials(creds []credentialprovider.TrackedAuthConfig) []string {
	list := []string{}
	for _, c := range creds {
		text := c.Username
		if c.Source != nil && c.Source.ServiceAccount != nil {
			sa := c.Source.ServiceAccount
			text += " for " + sa.Namespace + "/" + sa.Name + " " + sa.UID
		}
		list = append(list, text)
	}
	return list
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	data := must.Get(os.ReadFile(path))(t)
	return string(data)
}
