// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package parity

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider/secrets"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/upstream/corpus"
	"github.com/regcred/regcred/upstream/kubelet"
)

const password = "canary-password-4b1d"

var (
	repositories = []string{
		"registry.io/team/app", "registry.io/team-evil/app", "registry.io:5000/team/app", "docker.io/library/nginx", "docker.io/team/app",
		"localhost/app", "localhost:5000/app", "sub.registry.io/app", "[::1]:5000/app", "a.io/v1/x", "a.io/v2/x",
	}
	keyScraps = append([]string{"https://", "http://", "HTTP://", "/v1/", "/v2/", "/v1", "v1/", "index.docker.io", "docker.io", "*.io", "*"}, scraps...)
)

// sameKey is what makes two auth keys one entry of a keyring. It serves only
// to leave out answers in which two do: the kubelet takes these in random order.
func sameKey(key string) string {
	if !strings.HasPrefix(key, "https://") && !strings.HasPrefix(key, "http://") {
		key = "https://" + key
	}
	u, err := url.Parse(key)
	if err != nil {
		return key
	}
	path := u.Path
	if strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/v2/") {
		path = path[3:]
	}
	return u.Host + strings.TrimSuffix(path, "/")
}

// authKey makes a key that matches repo, or nearly does.
func authKey(r *rand.Rand, repo string) string {
	key := near(r, repo)
	switch r.IntN(6) {
	case 0:
		key = "https://" + key
	case 1:
		key = "https://" + strings.Replace(key, "/", "/v1/", 1)
	case 2:
		key += pick(r, []string{"/", "/v1/", "/v2/", "/v1", "?q", "#f"})
	case 3:
		key = pick(r, []string{"index.docker.io", "https://index.docker.io/v1/", "docker.io", "registry-1.docker.io", "index.docker.io/v2/"})
	}
	if one(r, 5) {
		key = mutate(r, key, keyScraps)
	}
	return key
}

func answersFor(r *rand.Rand, repo string) []map[string]corpus.Auth {
	out := make([]map[string]corpus.Auth, r.IntN(4))
	for i := range out {
		out[i] = map[string]corpus.Auth{}
		seen := map[string]bool{}
		for j := range r.IntN(6) {
			key := authKey(r, repo)
			if same := sameKey(key); !seen[same] {
				seen[same] = true
				out[i][key] = corpus.Auth{Username: corpus.Text(fmt.Sprintf("%d.%d", i, j)), Password: corpus.Text(fmt.Sprintf("%s-%d", password, j))}
			}
		}
	}
	return out
}

func keysOf(answers []map[string]corpus.Auth) (out []string) {
	for _, a := range answers {
		out = append(out, fmt.Sprintf("%q", slices.Sorted(maps.Keys(a))))
	}
	return out
}

func TestKeyring(t *testing.T) {
	found := 0
	cases(t, 20_000, func(r *rand.Rand) bool {
		repo := pick(r, repositories)
		answers := answersFor(r, repo)
		k := keyring(t, answers, regcred.Options{})
		defer k.Close()
		res, err := k.Lookup(t.Context(), regcred.Request{Image: repo})
		if err != nil {
			t.Error(err)
			return false
		}
		want := kubelet.Lookup(answers, repo)
		found += len(want)
		if got := auths(res); !slices.Equal(got, want) {
			t.Errorf("image %q, keys %s: %q, the kubelet's %q", repo, keysOf(answers), users(got), users(want))
			return false
		}
		return true
	})
	if found < 1000 {
		t.Errorf("only %d credentials were found", found)
	}
}

var secretScraps = []string{
	"{", "}", "[", "]", ",", ":", "\"", "null", "1", "\"auth\":", "\"AUTH\":", "\"username\":", "\"Username\":", "\"password\":\"\",", "\"auths\":", "\"x\":1,", "\"HttpHeaders\":", "\"email\":1,",
	"dTpw", "dTpw\\n", "=", "==", "\\n", " ", "\xff", "\\u0000", "-", "_", "*.io", "https://", "/v1/", "\ufeff",
}

// pullSecrets makes one to three secrets of the corpus, some of them changed.
func pullSecrets(r *rand.Rand, list []corpus.Secret) (ours []regcred.PullSecret, theirs []corev1.Secret) {
	for range 1 + r.IntN(3) {
		s := pick(r, list)
		for len(s.Data) > 0 && one(r, 2) { // many of the corpus are broken
			if _, err := secrets.MakeDockerKeyring([]corev1.Secret{{Type: corev1.SecretType(s.Type), Data: map[string][]byte{s.Key: []byte(s.Data)}}}, nil); err == nil {
				break
			}
			s = pick(r, list)
		}
		data := string(s.Data)
		if one(r, 5) && data != "" {
			data = mutate(r, data, secretScraps)
		}
		m := map[string][]byte{s.Key: []byte(data)}
		ours = append(ours, regcred.PullSecret{Type: s.Type, Data: m})
		theirs = append(theirs, corev1.Secret{Type: corev1.SecretType(s.Type), Data: m})
	}
	return ours, theirs
}

func TestPullSecrets(t *testing.T) {
	list := slices.DeleteFunc(corpus.Secrets(), func(s corpus.Secret) bool { return len(s.Data) > 2000 })
	k := keyring(t, nil, regcred.Options{})
	defer k.Close()
	found, broken := 0, 0
	cases(t, 20_000, func(r *rand.Rand) bool {
		ours, theirs := pullSecrets(r, list)
		if collide(theirs) {
			return true
		}
		res, err := k.Lookup(t.Context(), regcred.Request{Image: "registry.io/app", PullSecrets: ours})
		ring, wantErr := secrets.MakeDockerKeyring(theirs, credentialprovider.UnionDockerKeyring{})
		failed := slices.ContainsFunc(res.Attempts, func(a regcred.Attempt) bool { return a.Err != nil })
		if failed != (wantErr != nil) {
			t.Errorf("a secret failed: %t (%v), the kubelet's error %v\n%s", failed, err, wantErr, hideSecrets(theirs))
			return false
		}
		if wantErr != nil {
			broken++ // the kubelet gives up; regcred goes on with the other secrets
			return true
		}
		creds, _ := ring.Lookup("registry.io/app")
		want := kubelet.Auths(creds)
		found += len(want)
		if got := auths(res); !slices.Equal(got, want) {
			t.Errorf("%d credentials of users %q, the kubelet's %q\n%s", len(got), users(got), users(want), hideSecrets(theirs))
			return false
		}
		return true
	})
	t.Logf("%d credentials, %d times a secret was broken", found, broken)
	if found < 100 || broken < 100 {
		t.Error("the generator no longer makes both kinds")
	}
}

// collide reports whether two keys of one secret become the same.
func collide(list []corev1.Secret) bool {
	for _, s := range list {
		seen := map[string]bool{}
		for key := range keysOfSecret(s) {
			if seen[sameKey(key)] {
				return true
			}
			seen[sameKey(key)] = true
		}
	}
	return false
}

func keysOfSecret(s corev1.Secret) credentialprovider.DockerConfig {
	var cfg credentialprovider.DockerConfigJSON
	if s.Type == corev1.SecretTypeDockerConfigJson {
		json.Unmarshal(s.Data[corev1.DockerConfigJsonKey], &cfg)
	} else {
		json.Unmarshal(s.Data[corev1.DockerConfigKey], &cfg.Auths)
	}
	return cfg.Auths
}

// hideSecrets says which secrets there were, without their contents.
func hideSecrets(list []corev1.Secret) string {
	var b strings.Builder
	for _, s := range list {
		for k, data := range s.Data {
			fmt.Fprintf(&b, "%s %s: %d bytes\n", s.Type, k, len(data))
		}
	}
	return b.String()
}

// TestNodeDockerConfig compares the node's docker config files: which file is
// taken, and what is in it.
func TestNodeDockerConfig(t *testing.T) {
	for _, path := range []string{"/.docker/config.json", "/.dockercfg"} {
		if _, err := os.Stat(path); err == nil {
			t.Skipf("%s exists on this machine", path)
		}
	}
	list := slices.DeleteFunc(corpus.Secrets(), func(s corpus.Secret) bool { return len(s.Data) > 2000 })
	found := 0
	cases(t, 1_000, func(r *rand.Rand) bool {
		dir := t.TempDir()
		paths := regcred.NodePaths{RootDir: filepath.Join(dir, "root"), WorkDir: filepath.Join(dir, "work"), Home: filepath.Join(dir, "home")}
		homeDocker := filepath.Join(paths.Home, ".docker")
		for _, file := range []string{
			paths.RootDir + "/config.json", paths.WorkDir + "/config.json", homeDocker + "/config.json", paths.Home + "/config.json",
			paths.RootDir + "/.dockercfg", paths.WorkDir + "/.dockercfg", paths.Home + "/.dockercfg", homeDocker + "/.dockercfg",
		} {
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if one(r, 3) {
				// Each place has users of its own, so that a wrong one is seen.
				text := strings.ReplaceAll(string(pick(r, list).Data), `"u"`, fmt.Sprintf("%q", strings.TrimPrefix(file, dir)))
				write(t, file, text)
			}
		}
		cfg, err := credentialprovider.ReadDockerConfigJSONFile([]string{paths.RootDir, paths.WorkDir, homeDocker, "/.docker"})
		if err != nil {
			cfg, _ = credentialprovider.ReadDockercfgFile([]string{paths.RootDir, paths.WorkDir, paths.Home, "/"})
		}
		ring := &credentialprovider.BasicDockerKeyring{}
		ring.Add(nil, cfg)
		creds, _ := ring.Lookup("registry.io/app")
		want := kubelet.Auths(creds)
		found += len(want)

		k := keyring(t, nil, regcred.Options{Sources: []regcred.Source{regcred.NodeDockerConfig(paths)}})
		defer k.Close()
		res, _ := k.Lookup(t.Context(), regcred.Request{Image: "registry.io/app"})
		if got := auths(res); !slices.Equal(got, want) {
			t.Errorf("credentials of users %q, the kubelet's %q", users(got), users(want))
			return false
		}
		return true
	})
	if found < 100 {
		t.Errorf("only %d credentials were found", found)
	}
}
