// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerconfig

import (
	"encoding/json"
	"strings"

	"github.com/regcred/regcred/plugin"
)

// File is a config.json or auth.json as docker and podman read it. The zero
// value is an empty one. It is safe for concurrent use as long as nobody
// changes it.
type File struct {
	Auths       map[string]Auth   // by key, as written; without the entries that hold nothing
	CredHelpers map[string]string // names of helpers, by key as written
	CredsStore  string            // name of the helper for the registries that CredHelpers does not name
}

// Auth is one credential. The zero value is none.
type Auth struct {
	Username string
	Password plugin.Secret

	// IdentityToken is exchanged for access tokens at the registry's token
	// server; RegistryToken is such an access token. A kubelet can use neither.
	IdentityToken plugin.Secret
	RegistryToken plugin.Secret
}

// IsZero reports whether a is none.
func (a Auth) IsZero() bool {
	return a.Username == "" && a.Password.IsZero() && a.IdentityToken.IsZero() && a.RegistryToken.IsZero()
}

// Equal reports whether two credentials are the same.
func (a Auth) Equal(b Auth) bool {
	return a.Username == b.Username && a.Password.Equal(b.Password) &&
		a.IdentityToken.Equal(b.IdentityToken) && a.RegistryToken.Equal(b.RegistryToken)
}

// ParseFile reads a config.json or auth.json, or a .dockercfg, which is the
// auths alone. As in docker, one bad entry makes the whole file invalid, case
// does not count in the names of fields, and unknown fields are ignored.
// Unlike docker it also takes base64 without padding, as the kubelet does.
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
		return nil, describe(data, err, dockerFile)
	}
	file := &File{CredHelpers: raw.CredHelpers, CredsStore: raw.CredsStore}
	entries, l := raw.Auths, dockerFile
	if raw.Auths == nil && raw.CredHelpers == nil && raw.CredsStore == "" {
		if err := json.Unmarshal(data, &entries); err != nil {
			return nil, describe(data, err, dockerFile)
		}
		entries, l = legacyEntries(entries), dockerLegacy
	}
	auths, err := parseEntries(entries)
	if err != nil {
		return nil, describe(data, err, l)
	}
	file.Auths = auths
	return file, nil
}

// legacyEntries returns the members of a .dockercfg that are credentials. Of
// a config.json without any, which has members too, nothing is left.
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

// fileEntry is one member of auths.
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
		if !auth.IsZero() { // docker leaves empty ones behind where a helper has the credential
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
	user, password, err := decodeAuth(raw.Auth)
	// Old versions of docker filled the password up with zeros.
	auth.Username, auth.Password = user, plugin.NewSecret(strings.Trim(password, "\x00"))
	return auth, err
}
