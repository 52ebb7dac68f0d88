// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerclient

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/regcred/regcred/dockerconfig"
	"github.com/regcred/regcred/plugin"
)

// authFileContent is an auth.json of podman, skopeo and buildah.
type authFileContent struct {
	Auths       map[string]json.RawMessage `json:"auths"`
	CredHelpers map[string]string          `json:"credHelpers,omitempty"`
}

// authFiles returns the files that podman, skopeo and buildah read, in order of
// precedence. REGISTRY_AUTH_FILE replaces all of them.
//
// Source: containers/image pkg/docker/config/config.go, getAuthFilePaths, except the
// .dockercfg used before 2015.
func (e Env) authFiles() (list []string) {
	if file := e.Getenv("REGISTRY_AUTH_FILE"); file != "" {
		return []string{e.absPath(file)}
	}
	if runtime.GOOS == "linux" {
		dir := e.Getenv("XDG_RUNTIME_DIR")
		if dir == "" {
			dir = fmt.Sprintf("/run/containers/%d", os.Getuid())
			list = append(list, filepath.Join(dir, authFileName))
		} else {
			list = append(list, filepath.Join(e.absPath(dir), "containers", authFileName))
		}
	}
	if file, err := e.authFile(); err == nil {
		list = append(list, file)
	}
	if dir, err := e.dockerDir(); err == nil {
		list = append(list, filepath.Join(dir, configFileName))
	}
	return list
}

// mergeAuthFiles merges files in order of precedence, as podman does. An entry for a host, or for a
// path below the host, hides matching entries of later files.
func mergeAuthFiles(paths []string) (all authFileContent, err error) {
	all = authFileContent{map[string]json.RawMessage{}, map[string]string{}}
	for _, path := range paths {
		f, err := readFile(path)
		if errors.Is(err, fs.ErrPermission) {
			continue // the command runs as the same user, so it cannot read the file either
		}
		if err != nil {
			return all, err
		}
		if f.data == nil {
			continue
		}
		var next authFileContent
		if err := json.Unmarshal(f.data, &next); err != nil {
			_, parsed := parseDocument(f.data)
			if parsed == nil {
				parsed = errors.New("auths or credHelpers is malformed")
			}
			return all, fmt.Errorf("%s: %w", path, parsed)
		}
		all.mergeNext(next)
	}
	return all, nil
}

func (a *authFileContent) mergeNext(next authFileContent) {
	var auths, helpers []string
	for key := range next.Auths {
		if !a.hasEntry(dockerconfig.Scope(key)) {
			auths = append(auths, key)
		}
	}
	for key := range next.CredHelpers {
		if !a.hasEntry(key) && !a.hasEntryBelow(key) {
			helpers = append(helpers, key)
		}
	}
	for _, key := range auths {
		a.Auths[key] = next.Auths[key]
	}
	for _, key := range helpers {
		a.CredHelpers[key] = next.CredHelpers[key]
	}
}

// hasEntry reports whether a has a credential or a helper for scope. scope is a host or a path
// below a host.
func (a *authFileContent) hasEntry(scope string) bool {
	host, _, _ := strings.Cut(scope, "/")
	if _, ok := a.CredHelpers[host]; ok {
		return true
	}
	for key, text := range a.Auths {
		if above := dockerconfig.Scope(key); isCredentialEntry(text) && (above == scope || strings.HasPrefix(scope, above+"/")) {
			return true
		}
	}
	return false
}

// hasEntryBelow reports whether a has a credential for a path below host. A helper for the host
// would hide this credential.
func (a *authFileContent) hasEntryBelow(host string) bool {
	for key, text := range a.Auths {
		if isCredentialEntry(text) && strings.HasPrefix(dockerconfig.Scope(key), host+"/") {
			return true
		}
	}
	return false
}

// isCredentialEntry reports whether an entry of auths has any fields. Docker writes
// empty entries for hosts with a helper.
func isCredentialEntry(text json.RawMessage) bool {
	var fields map[string]json.RawMessage
	return json.Unmarshal(text, &fields) != nil || len(fields) > 0
}

// addCredentials adds a credential for each repository. These credentials take precedence over the
// existing entries. If all credentials for a host are the same, addCredentials also adds one for the
// whole host.
func (a *authFileContent) addCredentials(logins []Credential) error {
	first, differ := firstPerHost(logins)
	alone := map[string]bool{}
	for _, l := range first {
		alone[l.Host()] = true
	}
	for _, l := range differ {
		alone[l.Host()] = false
	}
	for _, l := range logins {
		text, err := l.authEntry()
		if err != nil {
			return err
		}
		delete(a.CredHelpers, l.Host())
		a.Auths[l.Repository] = json.RawMessage(text)
		if alone[l.Host()] {
			a.Auths[l.Host()] = json.RawMessage(text)
		}
	}
	return nil
}

func (a *authFileContent) encode() ([]byte, error) {
	data, err := json.MarshalIndent(a, "", "\t")
	return append(data, '\n'), err
}

// Credential is a credential for an image.
type Credential struct {
	Repository string // normalised: "registry.example/team/app"
	Username   string
	Password   plugin.Secret
}

// Host returns the registry of the image.
func (l Credential) Host() string {
	host, _, _ := strings.Cut(l.Repository, "/")
	return host
}

func (l Credential) authEntry() (string, error) {
	if l.Username == "" {
		return "", fmt.Errorf("the credential for %s has no user name, which docker requires to load its config file", l.Repository)
	}
	if strings.Contains(l.Username, ":") {
		return "", fmt.Errorf("the user name for %s contains a colon, which separates the user name from the password in client config files", l.Repository)
	}
	return `{"auth": ` + quoteJSON(base64.StdEncoding.EncodeToString([]byte(l.Username+":"+l.Password.Reveal()))) + "}", nil
}

func (l Credential) isSame(other Credential) bool {
	return l.Username == other.Username && l.Password.Equal(other.Password)
}

// firstPerHost returns the first credential for each host, and the credentials that
// differ from it.
func firstPerHost(logins []Credential) (first, differ []Credential) {
	for _, l := range logins {
		i := slices.IndexFunc(first, func(f Credential) bool { return f.Host() == l.Host() })
		switch {
		case i < 0:
			first = append(first, l)
		case !first[i].isSame(l):
			differ = append(differ, l)
		}
	}
	return first, differ
}

// PutCredentials returns docker's file with one credential for each host. The credential replaces
// the existing entries and helpers for the host and for the images. If a host has several
// credentials, PutCredentials uses the first and returns those that differ from it. data is nil if
// the file does not exist.
func PutCredentials(data []byte, logins []Credential) (text []byte, differ []Credential, err error) {
	if data == nil {
		data = []byte("{}")
	}
	doc, err := parseDocument(data)
	if err != nil {
		return nil, nil, err
	}
	first, differ := firstPerHost(logins)
	// Clients such as crane look up the repository first.
	if err := doc.removeScopes(func(scope string) bool { return coversAny(scope, logins) }); err != nil {
		return nil, nil, err
	}
	for _, l := range first {
		auth, err := l.authEntry()
		if err != nil {
			return nil, nil, err
		}
		key := ClientDocker.HelperKeys([]string{l.Host()})[0]
		if err := doc.setMember(authsField, key, auth); err != nil {
			return nil, nil, err
		}
		helped := slices.ContainsFunc(doc.helpers, func(m jsonMember) bool { return isSameHost(m.Key, key) })
		if !helped && doc.credsStore == "" {
			continue
		}
		// With an empty helper name, docker uses auths and ignores the store.
		if err := doc.setMember(credHelpersField, key, `""`); err != nil {
			return nil, nil, err
		}
	}
	return doc.encode(), differ, nil
}

// coversAny reports whether a scope is the repository of a credential or a path above it. It returns
// false for hosts.
func coversAny(scope string, logins []Credential) bool {
	return strings.Contains(scope, "/") && slices.ContainsFunc(logins, func(l Credential) bool {
		return strings.HasPrefix(l.Repository+"/", scope+"/")
	})
}

// removeScopes removes the entries of auths and credHelpers for some scopes.
func (d *configDocument) removeScopes(unwanted func(scope string) bool) error {
	drop := func(m jsonMember) bool { return unwanted(dockerconfig.Scope(m.Key)) }
	if m, set := d.findMember(authsField); set {
		kept, err := d.memberValue(m).removeMembersIf(drop)
		if err != nil {
			return fmt.Errorf("%s must be an object: fix or remove it", authsField)
		}
		d.jsonObject = d.jsonObject.setMemberValue(m, kept)
	}
	if err := d.readFields(); err != nil {
		return err
	}
	return d.removeHelpers(drop)
}

// isSameHost reports whether two keys are for the same registry.
func isSameHost(a, b string) bool { return dockerconfig.Scope(a) == dockerconfig.Scope(b) }

// setMember sets the member for a host in the object called field, and removes the host's other
// members from it.
func (d *configDocument) setMember(field, key, text string) error {
	m, set := d.findMember(field)
	if !set {
		s := d.memberStyle()
		d.jsonObject = d.jsonObject.prependMembers(s.objectMember(field, []string{quoteJSON(key) + s.colon + text}))
		return d.readFields()
	}
	nested, err := d.memberValue(m).removeMembersIf(func(m jsonMember) bool { return isSameHost(m.Key, key) })
	if err != nil {
		return fmt.Errorf("%s must be an object: fix or remove it", field)
	}
	d.jsonObject = d.jsonObject.setMemberValue(m, nested.prependMembers(quoteJSON(key)+nested.memberStyle().colon+text))
	return d.readFields()
}
