// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerconfig

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/regcred/regcred/plugin"
)

// Parse reads a config.json (a secret of type kubernetes.io/dockerconfigjson)
// and returns its auths by key. One bad entry makes the whole file invalid,
// as in the kubelet (pkg/credentialprovider/config.go). The error is then a
// [*Problem].
func Parse(data []byte) (map[string]plugin.AuthConfig, error) {
	var file struct {
		Auths map[string]entry
		// kubelet: headers of another type than string make the file invalid.
		HTTPHeaders map[string]string `json:"HttpHeaders"`
	}
	if err := checkEntries(data); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, describe(data, err, kubeletFile)
	}
	return auths(file.Auths), nil
}

// ParseLegacy reads a .dockercfg (a secret of type kubernetes.io/dockercfg),
// which is the auths alone.
func ParseLegacy(data []byte) (map[string]plugin.AuthConfig, error) {
	var file map[string]entry
	if err := checkEntries(data); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, describe(data, err, legacyFile)
	}
	return auths(file), nil
}

// maxEntries bounds the commas and braces of a file. The decoder needs several
// hundred bytes for an entry, which may be written in eight: {"a":{},
const maxEntries = 1 << 17

// checkEntries refuses a file that is small and becomes large in memory.
func checkEntries(data []byte) error {
	if n := bytes.Count(data, []byte(",")) + bytes.Count(data, []byte("{")); n > maxEntries {
		return fmt.Errorf("the file contains more than %d commas and braces: check that it is a docker config file", maxEntries)
	}
	return nil
}

func auths(entries map[string]entry) map[string]plugin.AuthConfig {
	m := make(map[string]plugin.AuthConfig, len(entries))
	for key, e := range entries {
		m[key] = plugin.AuthConfig(e)
	}
	return m
}

// entry decodes one credential.
type entry plugin.AuthConfig

func (e *entry) UnmarshalJSON(data []byte) error {
	var raw struct {
		Username string
		Password string
		Email    string // kubelet: of no use, but a number here makes the file invalid
		Auth     string
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	e.Username, e.Password = raw.Username, plugin.NewSecret(raw.Password)
	if raw.Auth == "" {
		return nil
	}
	user, password, err := decodeAuth(raw.Auth)
	e.Username, e.Password = user, plugin.NewSecret(password)
	return err
}

// DecodeAuth decodes an auth field as a kubelet does. Its error holds nothing
// of it.
func DecodeAuth(field string) (username string, password plugin.Secret, err error) {
	username, text, err := decodeAuth(field)
	return username, plugin.NewSecret(text), err
}

// errAuth says what decodeAuth wants, and nothing of what it got.
var errAuth = errors.New("an auth field is not base64-encoded user:password")

func decodeAuth(s string) (user, password string, err error) {
	encoding := base64.RawStdEncoding
	// kubelet: the choice looks past trailing space, the decoder does not.
	if strings.HasSuffix(strings.TrimSpace(s), "=") {
		encoding = base64.StdEncoding
	}
	b, err := encoding.DecodeString(s)
	if err != nil {
		return "", "", errAuth
	}
	user, password, ok := strings.Cut(string(b), ":")
	if !ok {
		return "", "", errAuth
	}
	return user, password, nil
}
