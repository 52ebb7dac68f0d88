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

// Login is a credential for an image.
type Login struct {
	Repository string // normalised: "registry.example/team/app"
	Username   string
	Password   plugin.Secret
}

// Host returns the registry of the image.
func (l Login) Host() string {
	host, _, _ := strings.Cut(l.Repository, "/")
	return host
}

// auth returns an entry of auths.
func (l Login) auth() (string, error) {
	if l.Username == "" {
		return "", fmt.Errorf("the credential for %s has no user name, which docker requires to load its config file", l.Repository)
	}
	if strings.Contains(l.Username, ":") {
		return "", fmt.Errorf("the user name for %s contains a colon, which separates the user name from the password in client config files", l.Repository)
	}
	return `{"auth": ` + quote(base64.StdEncoding.EncodeToString([]byte(l.Username+":"+l.Password.Reveal()))) + "}", nil
}

// same reports whether two credentials are the same.
func (l Login) same(other Login) bool {
	return l.Username == other.Username && l.Password.Equal(other.Password)
}

// perHost returns the first credential for each host, and those that differ
// from it.
func perHost(logins []Login) (first, differ []Login) {
	for _, l := range logins {
		i := slices.IndexFunc(first, func(f Login) bool { return f.Host() == l.Host() })
		switch {
		case i < 0:
			first = append(first, l)
		case !first[i].same(l):
			differ = append(differ, l)
		}
	}
	return first, differ
}

// PutLogins returns docker's file with one credential for each host, the first,
// instead of the entries and helpers that it has for the host. It also returns
// the credentials that differ from the host's first one. Data is nil if there
// is no file.
func PutLogins(data []byte, logins []Login) (text []byte, differ []Login, err error) {
	if data == nil {
		data = []byte("{}")
	}
	doc, err := parse(data)
	if err != nil {
		return nil, nil, err
	}
	first, differ := perHost(logins)
	for _, l := range first {
		auth, err := l.auth()
		if err != nil {
			return nil, nil, err
		}
		key := Docker.Keys([]string{l.Host()})[0]
		if err := doc.set(auths, key, auth); err != nil {
			return nil, nil, err
		}
		helped := slices.ContainsFunc(doc.helpers, func(m member) bool { return sameHost(m.Key, key) })
		if !helped && doc.store == "" {
			continue
		}
		// With an empty helper name docker looks into auths, whatever the
		// store.
		if err := doc.set(credHelpers, key, `""`); err != nil {
			return nil, nil, err
		}
	}
	return doc.bytes(), differ, nil
}

// sameHost reports whether two keys are for the same registry.
func sameHost(a, b string) bool { return dockerconfig.Scope(a) == dockerconfig.Scope(b) }

// set sets a host's member in a field that is an object, and removes the host's
// other members.
func (d *document) set(field, key, text string) error {
	list, err := d.members()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(m member) bool { return isField(m, field) })
	if i < 0 {
		s := d.style()
		d.object = d.object.prepend(s.nested(field, []string{quote(key) + s.colon + text}))
		return d.read()
	}
	nested, err := d.value(list[i]).removeIf(func(m member) bool { return sameHost(m.Key, key) })
	if err != nil {
		return fmt.Errorf("%s must be an object: fix or remove it", field)
	}
	d.object = d.object.setValue(list[i], nested.prepend(quote(key)+nested.style().colon+text))
	return d.read()
}
