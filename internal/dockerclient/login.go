// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerclient

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/dockerconfig"
	"github.com/regcred/regcred/plugin"
)

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

// PutCredentials returns docker's file with one credential for each host, which
// replaces the host's existing entries and helpers. It uses the host's first credential
// and returns those that differ from it. data is nil if there is no file.
func PutCredentials(data []byte, logins []Credential) (text []byte, differ []Credential, err error) {
	if data == nil {
		data = []byte("{}")
	}
	doc, err := parseDocument(data)
	if err != nil {
		return nil, nil, err
	}
	first, differ := firstPerHost(logins)
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
		if !helped && doc.store == "" {
			continue
		}
		// With an empty helper name, docker uses auths and ignores the store.
		if err := doc.setMember(credHelpersField, key, `""`); err != nil {
			return nil, nil, err
		}
	}
	return doc.encode(), differ, nil
}

// isSameHost reports whether two keys are for the same registry.
func isSameHost(a, b string) bool { return dockerconfig.Scope(a) == dockerconfig.Scope(b) }

// setMember sets the member for a host in a field that is an object, and removes the
// host's other members.
func (d *configDocument) setMember(field, key, text string) error {
	m, set := d.field(field)
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
