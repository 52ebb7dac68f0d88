// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/upstream/node"
)

// tokenRegistry is a registry that accepts service account tokens as passwords. In its rules a service
// account is the user NAMESPACE.NAME, whatever user name the client sends. Each host name of the
// registry requires tokens with that name as the audience.
type tokenRegistry struct {
	*node.Registry
	tokenVerifier
	password string // password of the users that are not service accounts

	mu       sync.Mutex
	received map[string][]basicLogin // credentials by image, without the tag
}

// basicLogin is a user name and password that the guard received or a keyring returned.
type basicLogin struct {
	User   string
	Secret string // identifies the password without revealing it
}

func newLogin(user, password string) basicLogin {
	return basicLogin{user, fingerprint(password)}
}

// fingerprint identifies a password without revealing it. Tokens with the same subject, audience
// and bound pod have the same fingerprint.
func fingerprint(password string) string {
	parts := strings.Split(password, ".")
	if len(parts) != 3 {
		sum := sha256.Sum256([]byte(password))
		return fmt.Sprintf("a password, %x", sum[:4])
	}
	var claims struct {
		Sub        string
		Aud        []string
		Kubernetes struct{ Pod struct{ Name, UID string } } `json:"kubernetes.io"`
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		return "a broken token"
	}
	pod := claims.Kubernetes.Pod
	return fmt.Sprintf("token of %s for %s, bound to pod %s (%s)", claims.Sub, claims.Aud, pod.Name, pod.UID)
}

// startTokenRegistry starts a guard for every host below .example.
func startTokenRegistry(t *testing.T, net *testcloud.FakeNetwork, control *node.ControlPlane, opts testregistry.Options) *tokenRegistry {
	t.Helper()
	opts.Auth = testregistry.AuthBasic
	g := &tokenRegistry{
		Registry: node.StartRegistry(t, net, "registry.example", opts),
		tokenVerifier: tokenVerifier{control.Key, control.Issuer}, password: rand.Text(), received: map[string][]basicLogin{},
	}
	net.Handle("*.example", g)
	net.Handle("registry.example", g)
	return g
}

// pushImage pushes an image and returns its reference with the registry's name host.
func (g *tokenRegistry) pushImage(t *testing.T, host, repo string) (image string) {
	t.Helper()
	return host + strings.TrimPrefix(g.PushApp(t, repo, "v1"), g.Host)
}

func (g *tokenRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, password, ok := r.BasicAuth()
	if repo, _, isManifest := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/manifests/"); isManifest {
		g.recordLogin(r.Host+"/"+repo, user, password)
	}
	claims, err := g.verifyToken(password, r.Host, time.Now())
	if namespace, name, is := claims.ServiceAccount(); ok && err == nil && is {
		r = r.Clone(r.Context())
		r.SetBasicAuth(namespace+"."+name, g.password)
		g.SetUser(namespace+"."+name, g.password)
	}
	g.Registry.ServeHTTP(w, r)
}

func (g *tokenRegistry) recordLogin(image, user, password string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := basicLogin{}
	if user+password != "" {
		l = newLogin(user, password)
	}
	g.received[image] = append(g.received[image], l)
}

// takeLogins returns the distinct credentials of the first pull of an image, in order. It returns none
// for an anonymous pull.
func (g *tokenRegistry) takeLogins(t *testing.T, image string) (list []basicLogin) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	repo, _, _ := strings.Cut(image, ":")
	if len(g.received[repo]) == 0 {
		t.Errorf("no pull of %s was tried", image)
	}
	for _, l := range g.received[repo] {
		// A runtime first sends a request without credentials, even if it has some.
		if l == (basicLogin{}) || len(list) > 0 && list[len(list)-1] == l {
			continue
		}
		if slices.Contains(list, l) {
			break // the next pull begins
		}
		list = append(list, l)
	}
	return list
}
