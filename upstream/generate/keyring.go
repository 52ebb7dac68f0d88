// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package generate

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"

	"github.com/regcred/regcred/upstream/corpus"
)

// Password is the beginning of every password in a response. The tests search their output for it.
const Password = "canary-password-4b1d"

var (
	// Repositories are the repositories to look up.
	Repositories = []string{
		"registry.io/team/app", "registry.io/team-evil/app", "registry.io:5000/team/app", "docker.io/library/nginx", "docker.io/team/app",
		"localhost/app", "localhost:5000/app", "sub.registry.io/app", "[::1]:5000/app", "a.io/v1/x", "a.io/v2/x",
	}
	keyFragments = append([]string{"https://", "http://", "HTTP://", "/v1/", "/v2/", "/v1", "v1/", "index.docker.io", "docker.io", "*.io", "*"}, patternFragments...)
)

// NormalizeKey returns the registry and path to which a keyring reduces an auth key. It is only
// used to drop responses with two keys that reduce to the same text, because the kubelet returns
// their credentials in random order.
func NormalizeKey(key string) string {
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

// RandomAuthKey generates a key that matches repo, or nearly does.
func RandomAuthKey(r *rand.Rand, repo string) string {
	key := RandomPatternFor(r, repo)
	switch r.IntN(6) {
	case 0:
		key = "https://" + key
	case 1:
		key = "https://" + strings.Replace(key, "/", "/v1/", 1)
	case 2:
		key += PickElement(r, []string{"/", "/v1/", "/v2/", "/v1", "?q", "#f"})
	case 3:
		key = PickElement(r, []string{"index.docker.io", "https://index.docker.io/v1/", "docker.io", "registry-1.docker.io", "index.docker.io/v2/"})
	}
	if OneIn(r, 5) {
		key = MutateBytes(r, key, keyFragments)
	}
	return key
}

// RandomResponses generates the responses of up to three providers to a request for an image of a
// repository.
func RandomResponses(r *rand.Rand, repo string) []map[string]corpus.Auth {
	out := make([]map[string]corpus.Auth, r.IntN(4))
	for i := range out {
		out[i] = map[string]corpus.Auth{}
		seen := map[string]bool{}
		for j := range r.IntN(6) {
			key := RandomAuthKey(r, repo)
			if same := NormalizeKey(key); !seen[same] {
				seen[same] = true
				out[i][key] = corpus.Auth{Username: corpus.RawString(fmt.Sprintf("%d.%d", i, j)), Password: corpus.RawString(fmt.Sprintf("%s-%d", Password, j))}
			}
		}
	}
	return out
}

// SecretFragments are fragments of a docker config.
var SecretFragments = []string{
	"{", "}", "[", "]", ",", ":", "\"", "null", "1", "\"auth\":", "\"AUTH\":", "\"username\":", "\"Username\":", "\"password\":\"\",", "\"auths\":", "\"x\":1,", "\"HttpHeaders\":", "\"email\":1,",
	"dTpw", "dTpw\\n", "=", "==", "\\n", " ", "\xff", "\\u0000", "-", "_", "*.io", "https://", "/v1/", "\ufeff",
}

// RandomPullSecrets returns one to three secrets of a list, some of them changed. Many secrets in
// the list are broken. It skips most of those.
func RandomPullSecrets(r *rand.Rand, list []corpus.PullSecretCase, broken func(corpus.PullSecretCase) bool) (out []corpus.PullSecretCase) {
	for range 1 + r.IntN(3) {
		s := PickElement(r, list)
		for len(s.Data) > 0 && OneIn(r, 2) && broken(s) {
			s = PickElement(r, list)
		}
		if OneIn(r, 5) && s.Data != "" {
			s.Data = corpus.RawString(MutateBytes(r, string(s.Data), SecretFragments))
		}
		out = append(out, s)
	}
	return out
}

// HasCollidingKeys reports whether two keys of a secret are equal after normalization. Kubelets use
// such keys in random order.
func HasCollidingKeys(s corpus.PullSecretCase) bool {
	var file struct {
		Auths map[string]json.RawMessage `json:"auths"`
	}
	into := any(&file)
	if s.Type != "kubernetes.io/dockerconfigjson" {
		into = &file.Auths
	}
	_ = json.Unmarshal([]byte(s.Data), into) // ignores the part that cannot be decoded
	seen := map[string]bool{}
	for key := range file.Auths {
		if seen[NormalizeKey(key)] {
			return true
		}
		seen[NormalizeKey(key)] = true
	}
	return false
}
