// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerconfig

import (
	"encoding/json"
	"strings"

	"github.com/regcred/regcred/internal/dockerjson"
	"github.com/regcred/regcred/plugin"
)

// File is a config.json or auth.json as docker and podman read it. The zero value is an
// empty file. It is safe for concurrent use unless it is changed.
type File struct {
	Auths       map[string]Auth   // by key, as in the file; without empty entries
	CredHelpers map[string]string // names of helpers, by key as in the file
	CredsStore  string            // the helper for registries that are not in CredHelpers
}

// Auth is one credential. The zero value means no credential.
type Auth struct {
	Username string
	Password plugin.Secret

	// IdentityToken is exchanged for access tokens at the registry's token server.
	// RegistryToken is an access token. The kubelet can use neither.
	IdentityToken plugin.Secret
	RegistryToken plugin.Secret
}

// IsZero reports whether all fields are empty.
func (a Auth) IsZero() bool {
	return a.Username == "" && a.Password.IsZero() && a.IdentityToken.IsZero() && a.RegistryToken.IsZero()
}

// Equal reports whether two credentials are equal.
func (a Auth) Equal(b Auth) bool {
	return a.Username == b.Username && a.Password.Equal(b.Password) &&
		a.IdentityToken.Equal(b.IdentityToken) && a.RegistryToken.Equal(b.RegistryToken)
}

// ParseFile decodes a config.json, auth.json or .dockercfg. As in docker, one
// invalid entry makes the whole file invalid, field names are case-insensitive,
// and unknown fields are ignored. Unlike docker, but like the kubelet, it accepts
// base64 without padding.
func ParseFile(data []byte) (*File, error) {
	var raw struct {
		Auths       map[string]json.RawMessage
		CredHelpers map[string]string
		CredsStore  string
	}
	if err := checkEntries(data); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, dockerjson.FirstProblem(data, err, dockerjson.LayoutDocker)
	}
	file := &File{CredHelpers: raw.CredHelpers, CredsStore: raw.CredsStore}
	entries, layout := raw.Auths, dockerjson.LayoutDocker
	if raw.Auths == nil && raw.CredHelpers == nil && raw.CredsStore == "" {
		if err := json.Unmarshal(data, &entries); err != nil {
			return nil, dockerjson.FirstProblem(data, err, dockerjson.LayoutDocker)
		}
		entries, layout = legacyEntries(entries), dockerjson.LayoutDockerLegacy
	}
	auths, err := parseEntries(entries)
	if err != nil {
		return nil, dockerjson.FirstProblem(data, err, layout)
	}
	file.Auths = auths
	return file, nil
}

// legacyEntries returns the members of a .dockercfg that are credentials. A config.json without
// credentials has no such members.
func legacyEntries(members map[string]json.RawMessage) map[string]json.RawMessage {
	entries := map[string]json.RawMessage{}
	for key, data := range members {
		var raw fileEntry
		if json.Unmarshal(data, &raw) == nil && raw != (fileEntry{}) {
			entries[key] = data
		}
	}
	return entries
}

type fileEntry struct {
	Username, Password, Auth, IdentityToken, RegistryToken string
}

func parseEntries(entries map[string]json.RawMessage) (map[string]Auth, error) {
	auths := make(map[string]Auth, len(entries))
	for key, data := range entries {
		auth, err := parseEntry(data)
		if err != nil {
			return nil, err
		}
		if !auth.IsZero() { // docker writes empty entries for credentials that a helper stores
			auths[key] = auth
		}
	}
	return auths, nil
}

func parseEntry(data []byte) (Auth, error) {
	var raw fileEntry
	if err := json.Unmarshal(data, &raw); err != nil {
		return Auth{}, err
	}
	auth := Auth{
		Username:      raw.Username,
		Password:      plugin.NewSecret(raw.Password),
		IdentityToken: plugin.NewSecret(raw.IdentityToken),
		RegistryToken: plugin.NewSecret(raw.RegistryToken),
	}
	if raw.Auth == "" {
		return auth, nil
	}
	user, password, err := dockerjson.DecodeAuth(raw.Auth)
	// Old versions of docker padded the password with NUL bytes.
	auth.Username, auth.Password = user, plugin.NewSecret(strings.Trim(password, "\x00"))
	return auth, err
}
