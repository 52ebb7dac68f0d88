// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/authn/kubernetes"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider/secrets"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/keychain"
)

const (
	validPassword = "canary-password-4b1d"
	stalePassword = "stale"
)

// login is a pull secret with one credential. HOST in its key is replaced with the registry's host.
type login struct{ key, user, password string }

// pullOutcome is the result of a pull with each implementation: the user name, or the HTTP status of
// the failure.
type pullOutcome struct{ K8schain, Regcred, Kubelet string }

// pullSecretCases contains the cases of go-containerregistry#723 and #1431 and of knative/serving#13126, and
// other pulls in which k8schain and a kubelet may differ. User "a" may pull team/app, "b" may pull
// team/db, and anonymous users may pull public/app.
var pullSecretCases = []struct {
	name   string
	logins []login
	image  string
	want   pullOutcome
}{
	{"one secret", []login{{"HOST", "a", validPassword}}, "team/app", pullOutcome{"a", "a", "a"}},
	{"#723: rights in the first secret", []login{{"HOST", "a", validPassword}, {"HOST", "b", validPassword}}, "team/app", pullOutcome{"a", "a", "a"}},
	{"#723: rights in the second secret", []login{{"HOST", "a", validPassword}, {"HOST", "b", validPassword}}, "team/db", pullOutcome{"403", "b", "b"}},
	{"#13126: the other way round", []login{{"HOST", "b", validPassword}, {"HOST", "a", validPassword}}, "team/app", pullOutcome{"403", "a", "a"}},
	{"#1431: a stale secret first", []login{{"HOST", "a", stalePassword}, {"HOST", "a", validPassword}}, "team/app", pullOutcome{"401", "a", "a"}},
	{"a stale secret last", []login{{"HOST", "a", validPassword}, {"HOST", "a", stalePassword}}, "team/app", pullOutcome{"a", "a", "a"}},
	{"a path before its host", []login{{"HOST", "b", validPassword}, {"HOST/team/app", "a", validPassword}}, "team/app", pullOutcome{"a", "a", "a"}},
	{"a stale path before its host", []login{{"HOST/team/app", "a", stalePassword}, {"HOST", "a", validPassword}}, "team/app", pullOutcome{"401", "a", "a"}},
	{"a path that is not the image's", []login{{"HOST/team/db", "b", validPassword}}, "public/app", pullOutcome{"anonymous", "anonymous", "anonymous"}},
	{"a stale secret, and a public image", []login{{"HOST", "a", stalePassword}}, "public/app", pullOutcome{"401", "401", "401"}},
	{"a secret of another registry", []login{{"other.example", "b", validPassword}, {"HOST", "a", validPassword}}, "team/app", pullOutcome{"a", "a", "a"}},
	{"two registries, and the second secret", []login{{"HOST", "b", validPassword}, {"other.example", "x", validPassword}, {"HOST", "a", validPassword}}, "team/app", pullOutcome{"403", "a", "a"}},
	{"/v1/ and a scheme", []login{{"https://HOST/v1/", "a", validPassword}}, "team/app", pullOutcome{"a", "a", "a"}},
	{"no password", []login{{"HOST", "a", ""}, {"HOST", "a", validPassword}}, "team/app", pullOutcome{"401", "a", "a"}},
	{"nothing that fits", nil, "team/app", pullOutcome{"401", "401", "401"}},
}

func TestSameAsK8schain(t *testing.T) {
	t.Logf("%-40s %-10s %-10s %s", "case", "k8schain", "regcred", "kubelet")
	for _, auth := range []testregistry.Auth{testregistry.AuthBasic, testregistry.AuthBearer} {
		for _, tt := range pullSecretCases {
			s := startRegistry(t, auth)
			ref := must.Get(name.ParseReference(s.Addr() + "/" + tt.image + ":v1"))(t)
			ours, theirs := pullSecrets(t, tt.logins, s.Addr())
			got := pullOutcome{pullWithK8schain(t, s, ref, theirs), pullWithRegcred(t, s, ref, ours), pullWithKubelet(t, s, ref, theirs)}
			if auth == testregistry.AuthBasic {
				t.Logf("%-40s %-10s %-10s %s", tt.name, got.K8schain, got.Regcred, got.Kubelet)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s, scheme %d (-want +got):\n%s", tt.name, auth, diff)
			}
		}
	}
}

// TestHelperFails verifies that go-containerregistry's wrapper for credential helpers treats an
// error as "no credentials needed". k8schain uses this wrapper for the clouds. regcred's keychain
// must return the error.
func TestHelperFails(t *testing.T) {
	s := startRegistry(t, testregistry.AuthBasic)
	ref := must.Get(name.ParseReference(s.Addr() + "/team/app:v1"))(t)
	if a, err := authn.NewKeychainFromHelper(failingHelper{}).Resolve(ref.Context()); err != nil || a != authn.Anonymous {
		t.Errorf("go-containerregistry's: got %v, %v", a, err)
	}
	cfg := must.Get(config.Parse("test.yaml", []byte(`{"apiVersion":"kubelet.config.k8s.io/v1","kind":"CredentialProviderConfig","providers":[
		{"name":"gone","apiVersion":"credentialprovider.kubelet.k8s.io/v1","defaultCacheDuration":"1h","matchImages":["`+s.Addr()+`"]}]}`)))(t)
	k := must.Get(regcred.New(cfg, regcred.Options{BinDir: t.TempDir()}))(t)
	defer k.Close()
	var failed *regcred.LookupError
	if a, err := keychain.New(k, keychain.Options{}).Resolve(ref.Context()); !errors.As(err, &failed) {
		t.Errorf("ours: got %v, %v", a, err)
	}
}

type failingHelper struct{}

func (failingHelper) Get(string) (string, string, error) { return "", "", errors.New("no network") }

func startRegistry(t testing.TB, auth testregistry.Auth) *testregistry.Server {
	t.Helper()
	s := must.Get(testregistry.New(testregistry.Options{
		Auth: auth, Users: map[string]string{"a": validPassword, "b": validPassword},
		Rules: []testregistry.Rule{
			{User: "a", Prefix: "team/app", Pull: true}, {User: "b", Prefix: "team/db", Pull: true},
			{User: testregistry.Anonymous, Prefix: "public", Pull: true}, {User: testregistry.AnyUser, Prefix: "public", Pull: true},
		},
	}))(t)
	t.Cleanup(func() { s.Close() })
	for _, repo := range []string{"team/app", "team/db", "public/app"} {
		must.Get(s.Push(repo, "v1", testregistry.Image{}))(t)
	}
	return s
}

func pullSecrets(t testing.TB, logins []login, host string) (ours []regcred.PullSecret, theirs []corev1.Secret) {
	t.Helper()
	for i, l := range logins {
		key := strings.Replace(l.key, "HOST", host, 1)
		file, err := json.Marshal(map[string]any{"auths": map[string]any{key: map[string]string{"username": l.user, "password": l.password}}})
		if err != nil {
			t.Fatal(err)
		}
		data := map[string][]byte{corev1.DockerConfigJsonKey: file}
		ours = append(ours, regcred.PullSecret{Namespace: "ci", Name: fmt.Sprint(i), Type: string(corev1.SecretTypeDockerConfigJson), Data: data})
		theirs = append(theirs, corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: data})
	}
	return ours, theirs
}

func pullWithK8schain(t testing.TB, s *testregistry.Server, ref name.Reference, list []corev1.Secret) string {
	t.Helper()
	keys, err := kubernetes.NewFromPullSecrets(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	_, err = remote.Get(ref, remote.WithAuthFromKeychain(keys))
	return pullUser(s, err)
}

func pullWithRegcred(t testing.TB, s *testregistry.Server, ref name.Reference, list []regcred.PullSecret) string {
	t.Helper()
	k := must.Get(regcred.New(new(config.Config), regcred.Options{}))(t)
	defer k.Close()
	tr := must.Get(keychain.New(k, keychain.Options{For: regcred.Request{PullSecrets: list}}).Transport(ref.Context()))(t)
	_, err := remote.Get(ref, remote.WithTransport(tr.Wrapper()))
	return pullUser(s, err)
}

// pullWithKubelet tries each credential of the kubelet's keyring once, like the kubelet's
// image manager. Without credentials, it pulls anonymously.
func pullWithKubelet(t testing.TB, s *testregistry.Server, ref name.Reference, list []corev1.Secret) (got string) {
	t.Helper()
	ring := must.Get(secrets.MakeDockerKeyring(list, credentialprovider.UnionDockerKeyring{}))(t)
	creds, found := ring.Lookup(ref.Context().String())
	if !found {
		_, err := remote.Get(ref)
		return pullUser(s, err)
	}
	for _, c := range creds {
		_, err := remote.Get(ref, remote.WithAuth(authn.FromConfig(authn.AuthConfig{Username: c.Username, Password: c.Password})))
		if got = pullUser(s, err); err == nil {
			break
		}
	}
	return got
}

// pullUser returns the user who got the manifest, or the status of the rejected request.
func pullUser(s *testregistry.Server, err error) string {
	defer s.ResetLog()
	requests := s.Requests()
	last := requests[len(requests)-1]
	switch {
	case err != nil:
		return fmt.Sprint(last.Status)
	case last.User == "":
		return "anonymous"
	}
	return last.User
}

// BenchmarkResolve measures Resolve with a warm cache. regcred has a provider's cached response,
// k8schain has a pull secret, and go-containerregistry has a file.
func BenchmarkResolve(b *testing.B) {
	repo, err := name.NewRepository("registry.example/team/app")
	if err != nil {
		b.Fatal(err)
	}
	ours, theirs := pullSecrets(b, []login{{"HOST", "a", validPassword}}, "registry.example")
	k, err := regcred.New(new(config.Config), regcred.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	k8s, err := kubernetes.NewFromPullSecrets(b.Context(), theirs)
	if err != nil {
		b.Fatal(err)
	}
	b.Setenv("DOCKER_CONFIG", b.TempDir())
	for _, bench := range []struct {
		name string
		keys authn.Keychain
	}{
		{"regcred, pull secret", keychain.New(k, keychain.Options{For: regcred.Request{PullSecrets: ours}})},
		{"k8schain, pull secret", k8s},
		{"authn.DefaultKeychain, no file", authn.DefaultKeychain},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := bench.keys.Resolve(repo); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
