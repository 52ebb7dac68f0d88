// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/regcred/regcred/dockerconfig"
	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/plugin"
)

// MaxSize is the API server's limit for a Secret's data, in bytes.
const MaxSize = 1 << 20

// EmptyConfig is the content of a Secret without credentials. The API server rejects an empty
// value.
const EmptyConfig = `{"auths":{}}`

// dockerHubKey is the only key for Docker Hub that the kubelet, k8schain, the docker CLI and
// containers/image all use.
const dockerHubKey = "https://index.docker.io/v1/"

// TooLargeError is returned if a Secret would exceed MaxSize.
type TooLargeError struct{ Size, Registries int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the Secret would have %d bytes with %d registries; the API server's limit is %d", e.Size, e.Registries, MaxSize)
}

// CheckAuth returns an error for a credential that readers of docker configs would misread. One
// malformed entry makes the kubelet fail every pull of the pod.
func CheckAuth(a plugin.AuthConfig) error {
	password := a.Password.Reveal()
	switch {
	case a.Username == "" && password == "":
		return errors.New("the credential has neither a user name nor a password")
	case strings.Contains(a.Username, ":"):
		return errors.New("the user name contains a colon, which docker configs cannot represent")
	case !utf8.ValidString(a.Username) || !utf8.ValidString(password):
		return errors.New("the credential is not valid UTF-8")
	case strings.ContainsRune(a.Username+password, 0):
		return errors.New("the credential contains a NUL byte")
	}
	return nil
}

// entryKey returns the key of a docker config for a target's host. It is an exact host, which every
// reader supports.
func entryKey(t Target) string {
	if t.Host() == registry.DockerHub {
		return dockerHubKey
	}
	return t.Host()
}

// isUsefulPattern reports whether an auth key of a provider is a pattern that is added to the exact
// hosts for images that the file does not list. A wildcard port makes k8schain fail for all entries.
func isUsefulPattern(key string) bool {
	host, path, _ := strings.Cut(strings.TrimPrefix(key, "https://"), "/")
	return strings.Contains(host, "*") && strings.Contains(host, ".") && !strings.Contains(host, ":*") && !strings.Contains(path, "*")
}

// entries collects the credentials of a Secret by key.
type entries map[string]credentialEntry

// add adds a target's credential under its host. A target whose host already has another
// credential gets a key with its path.
func (e entries) add(t Target, x credentialEntry) {
	key := entryKey(t)
	if first, ok := e[key]; ok && !first.auth.Equal(x.auth) && t.Image != "" {
		key = t.Image
	}
	e.addMissing(key, x)
	if isUsefulPattern(x.pattern) {
		e.addMissing(x.pattern, x)
	}
}

func (e entries) addMissing(key string, x credentialEntry) {
	if _, ok := e[key]; !ok {
		x.Key = key
		e[key] = x
	}
}

// render returns the content of .dockerconfigjson.
func (e entries) render() ([]byte, error) {
	type entry struct {
		Username string `json:"username"`
		Password string `json:"password"`
		Auth     string `json:"auth"` // argocd-image-updater reads only this field
	}
	auths := map[string]entry{}
	for key, x := range e {
		user, password := x.auth.Username, x.auth.Password.Reveal()
		auths[key] = entry{user, password, base64.StdEncoding.EncodeToString([]byte(user + ":" + password))}
	}
	data, err := json.Marshal(map[string]any{"auths": auths})
	if err != nil {
		return nil, err
	}
	if len(data) > MaxSize {
		return nil, &TooLargeError{len(data), len(auths)}
	}
	// The kubelet's own rules: after this check, no entry can fail a pod's pulls.
	if _, err := dockerconfig.Parse(data, dockerconfig.ConfigJSON); err != nil {
		return nil, fmt.Errorf("the kubelet would reject the Secret: %w", err)
	}
	return data, nil
}
