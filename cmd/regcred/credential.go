// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/terminal"
)

// credentialJSON is a credential in -o json. Password is set by get alone,
// whose purpose it is.
type credentialJSON struct {
	Username    string     `json:"username"`
	Password    *string    `json:"password,omitempty"`
	Match       string     `json:"match"` // the auth key that matched
	Source      sourceJSON `json:"source"`
	CachedUntil *time.Time `json:"cachedUntil,omitempty"`
}

type sourceJSON struct {
	Kind           regcred.OriginKind `json:"kind"`
	Provider       string             `json:"provider,omitempty"`
	File           string             `json:"file,omitempty"`
	PullSecret     *objectJSON        `json:"pullSecret,omitempty"`
	ServiceAccount *objectJSON        `json:"serviceAccount,omitempty"`
}

type objectJSON struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

func toObjectJSON(r *regcred.ObjectRef) *objectJSON {
	if r == nil || *r == (regcred.ObjectRef{}) {
		return nil // a token from a file does not say whose it is
	}
	return (*objectJSON)(r)
}

// toCredentialsJSON is never nil, so that an empty list reads [].
func toCredentialsJSON(list []regcred.Credential) []credentialJSON {
	out := make([]credentialJSON, 0, len(list))
	for _, c := range list {
		out = append(out, *toCredentialJSON(&c))
	}
	return out
}

// toCredentialJSON leaves out the password. Of nil it is nil.
func toCredentialJSON(c *regcred.Credential) *credentialJSON {
	if c == nil {
		return nil
	}
	return &credentialJSON{
		Username: c.Username,
		Match:    c.Match,
		Source: sourceJSON{
			Kind:           c.Origin.Kind,
			Provider:       c.Provider,
			File:           c.Origin.File,
			PullSecret:     toObjectJSON(c.Origin.PullSecret),
			ServiceAccount: toObjectJSON(c.Origin.ServiceAccount),
		},
		CachedUntil: timeJSON(c.CachedUntil),
	}
}

func timeJSON(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Second)
	return &t
}

// describe says where a credential came from.
func (s sourceJSON) describe() string {
	switch {
	case s.PullSecret != nil && s.PullSecret.Namespace != "":
		return "pull secret " + s.PullSecret.Namespace + "/" + s.PullSecret.Name
	case s.PullSecret != nil:
		return "pull secret " + s.PullSecret.Name
	case s.File != "":
		return s.File
	case s.Provider != "":
		return "provider " + s.Provider
	}
	return string(s.Kind)
}

// credentialTable lays out credentials in their order.
func credentialTable(t *terminal.Text, creds []credentialJSON) {
	var rows [][]string
	for i, c := range creds {
		rows = append(rows, []string{fmt.Sprint(i + 1), cmp.Or(c.Username, "-"), c.Match, c.Source.describe(), t.Until(c.CachedUntil)})
	}
	t.Table([]string{"#", "USER", "FOR", "FROM", "CACHED UNTIL"}, rows)
}

// loginText names a credential, or says that there was none.
func loginText(c *credentialJSON) string {
	if c == nil {
		return "none (anonymous)"
	}
	return fmt.Sprintf("%s, user %q", c.Source.describe(), c.Username)
}
