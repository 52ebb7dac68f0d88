// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package parity

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider/secrets"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/adapter"
	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/generate"
	"github.com/regcred/regcred/upstream/kubelet"
)

const password = generate.Password

func sortedAuthKeys(answers []map[string]corpus.Auth) (out []string) {
	for _, a := range answers {
		out = append(out, fmt.Sprintf("%q", slices.Sorted(maps.Keys(a))))
	}
	return out
}

func TestKeyring(t *testing.T) {
	found := 0
	runCases(t, 20_000, func(r *rand.Rand) bool {
		repo := generate.PickElement(r, generate.Repositories)
		answers := generate.RandomResponses(r, repo)
		k := newKeyring(t, answers, regcred.Options{})
		defer k.Close()
		res, err := k.Lookup(t.Context(), regcred.Request{Image: repo})
		if err != nil {
			t.Error(err)
			return false
		}
		want := kubelet.LookupCredentials(answers, repo)
		found += len(want)
		if got := adapter.AuthsOf(res); !slices.Equal(got, want) {
			t.Errorf("image %q, keys %s: %q, the kubelet's %q", repo, sortedAuthKeys(answers), usernames(got), usernames(want))
			return false
		}
		return true
	})
	if found < 1000 {
		t.Errorf("only %d credentials were found", found)
	}
}

// randomPullSecrets returns random secrets of the corpus, for regcred and for the kubelet. collide
// reports whether two keys of a secret are equal after normalization.
func randomPullSecrets(r *rand.Rand, list []corpus.PullSecretCase) (passed []regcred.PullSecret, theirs []corev1.Secret, collide bool) {
	secret := func(s corpus.PullSecretCase) corev1.Secret {
		return corev1.Secret{Type: corev1.SecretType(s.Type), Data: map[string][]byte{s.Key: []byte(s.Data)}}
	}
	broken := func(s corpus.PullSecretCase) bool {
		_, err := secrets.MakeDockerKeyring([]corev1.Secret{secret(s)}, nil)
		return err != nil
	}
	for _, s := range generate.RandomPullSecrets(r, list, broken) {
		collide = collide || generate.HasCollidingKeys(s)
		theirs = append(theirs, secret(s))
		passed = append(passed, regcred.PullSecret{Type: s.Type, Data: theirs[len(theirs)-1].Data})
	}
	return passed, theirs, collide
}

func TestPullSecrets(t *testing.T) {
	list := slices.DeleteFunc(corpus.PullSecretCases(), func(s corpus.PullSecretCase) bool { return len(s.Data) > 2000 })
	k := newKeyring(t, nil, regcred.Options{})
	defer k.Close()
	found, broken := 0, 0
	runCases(t, 20_000, func(r *rand.Rand) bool {
		passed, theirs, collide := randomPullSecrets(r, list)
		if collide {
			return true
		}
		res, err := k.Lookup(t.Context(), regcred.Request{Image: "registry.io/app", PullSecrets: passed})
		ring, wantErr := secrets.MakeDockerKeyring(theirs, credentialprovider.UnionDockerKeyring{})
		failed := slices.ContainsFunc(res.Attempts, func(a regcred.Attempt) bool { return a.Err != nil })
		if failed != (wantErr != nil) {
			t.Errorf("a secret failed: %t (%v), the kubelet's error %v\n%s", failed, err, wantErr, hideSecrets(theirs))
			return false
		}
		if wantErr != nil {
			broken++ // the kubelet fails, but regcred continues with the other secrets
			return true
		}
		creds, _ := ring.Lookup("registry.io/app")
		want := kubelet.AuthsOf(creds)
		found += len(want)
		if got := adapter.AuthsOf(res); !slices.Equal(got, want) {
			t.Errorf("%d credentials of users %q, the kubelet's %q\n%s", len(got), usernames(got), usernames(want), hideSecrets(theirs))
			return false
		}
		return true
	})
	t.Logf("%d credentials, %d times a secret was broken", found, broken)
	if found < 100 || broken < 100 {
		t.Error("the generator no longer makes both kinds")
	}
}

// hideSecrets describes the secrets without their contents.
func hideSecrets(list []corev1.Secret) string {
	var b strings.Builder
	for _, s := range list {
		for k, data := range s.Data {
			fmt.Fprintf(&b, "%s %s: %d bytes\n", s.Type, k, len(data))
		}
	}
	return b.String()
}

// TestNodeDockerConfig compares which of the node's docker config files is used, and its
// credentials.
func TestNodeDockerConfig(t *testing.T) {
	for _, path := range []string{"/.docker/config.json", "/.dockercfg"} {
		if _, err := os.Stat(path); err == nil {
			t.Skipf("%s exists on this machine", path)
		}
	}
	list := slices.DeleteFunc(corpus.PullSecretCases(), func(s corpus.PullSecretCase) bool { return len(s.Data) > 2000 })
	found := 0
	runCases(t, 1_000, func(r *rand.Rand) bool {
		dir := t.TempDir()
		paths := regcred.NodePaths{RootDir: filepath.Join(dir, "root"), WorkDir: filepath.Join(dir, "work"), Home: filepath.Join(dir, "home")}
		homeDocker := filepath.Join(paths.Home, ".docker")
		for _, file := range []string{
			paths.RootDir + "/config.json", paths.WorkDir + "/config.json", homeDocker + "/config.json", paths.Home + "/config.json",
			paths.RootDir + "/.dockercfg", paths.WorkDir + "/.dockercfg", paths.Home + "/.dockercfg", homeDocker + "/.dockercfg",
		} {
			must.Do(t, os.MkdirAll(filepath.Dir(file), 0o700))
			if generate.OneIn(r, 3) {
				// The users are different in each path, so that the test detects a wrong path.
				text := strings.ReplaceAll(string(generate.PickElement(r, list).Data), `"u"`, fmt.Sprintf("%q", strings.TrimPrefix(file, dir)))
				writeFile(t, file, text)
			}
		}
		cfg, err := credentialprovider.ReadDockerConfigJSONFile([]string{paths.RootDir, paths.WorkDir, homeDocker, "/.docker"})
		if err != nil {
			cfg, _ = credentialprovider.ReadDockercfgFile([]string{paths.RootDir, paths.WorkDir, paths.Home, "/"})
		}
		ring := &credentialprovider.BasicDockerKeyring{}
		ring.Add(nil, cfg)
		creds, _ := ring.Lookup("registry.io/app")
		want := kubelet.AuthsOf(creds)
		found += len(want)

		k := newKeyring(t, nil, regcred.Options{Sources: []regcred.Source{regcred.NodeDockerConfig(paths)}})
		defer k.Close()
		res, _ := k.Lookup(t.Context(), regcred.Request{Image: "registry.io/app"})
		if got := adapter.AuthsOf(res); !slices.Equal(got, want) {
			t.Errorf("credentials of users %q, the kubelet's %q", usernames(got), usernames(want))
			return false
		}
		return true
	})
	if found < 100 {
		t.Errorf("only %d credentials were found", found)
	}
}
