// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package report

import (
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/dockerjson"
)

// Credential is the JSON form (-o json) of a [regcred.Credential]. Only the get command
// sets Password.
type Credential struct {
	Username    string     `json:"username"` // from [dockerjson.DisplayUser]; the get command sets the real name
	Password    *string    `json:"password,omitempty"`
	Match       string     `json:"match"` // the matching auth key
	Source      Origin     `json:"source"`
	CachedUntil *time.Time `json:"cachedUntil,omitempty"`
	Missing     string     `json:"lacks,omitempty"` // "user name and password", "user name" or "password"
}

// HasNoUsername reports whether c has no user name. Runtimes ignore such a credential (containerd:
// ParseAuth; CRI-O: PullImage).
func (c *Credential) HasNoUsername() bool { return c.Username == "" }

func missingParts(c *regcred.Credential) string {
	switch {
	case c.Username == "" && c.Password.IsZero():
		return "user name and password"
	case c.Username == "":
		return "user name"
	case c.Password.IsZero():
		return "password"
	}
	return ""
}

// Note describes the effect of a missing user name or password. It returns "" if
// neither is missing.
func (c *Credential) Note() string {
	switch {
	case c.Missing == "":
		return ""
	case c.HasNoUsername():
		return "it has no " + c.Missing + ": the kubelet passes it to the runtime, which pulls anonymously"
	}
	return "it has no " + c.Missing + ": the user name is sent with an empty password"
}

// Origin describes where a credential came from.
type Origin struct {
	Kind           regcred.OriginKind `json:"kind"`
	Provider       string             `json:"provider,omitempty"`
	File           string             `json:"file,omitempty"`
	PullSecret     *Object            `json:"pullSecret,omitempty"`
	ServiceAccount *Object            `json:"serviceAccount,omitempty"`
}

// Object refers to a Kubernetes object.
type Object struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

func newObject(r *regcred.ObjectRef) *Object {
	if r == nil || *r == (regcred.ObjectRef{}) {
		return nil // the service account of a token from a file is unknown
	}
	return (*Object)(r)
}

// NewCredentials converts list and omits the passwords. The result is never nil, so
// that an empty list becomes [] in JSON.
func NewCredentials(list []regcred.Credential) []Credential {
	out := make([]Credential, 0, len(list))
	for _, c := range list {
		out = append(out, *NewCredential(&c))
	}
	return out
}

// NewCredential converts c and omits the password. It returns nil if c is nil.
func NewCredential(c *regcred.Credential) *Credential {
	if c == nil {
		return nil
	}
	return &Credential{
		Username: dockerjson.DisplayUser(c.Username),
		Match:    c.Match,
		Source: Origin{
			Kind:           c.Origin.Kind,
			Provider:       c.Provider,
			File:           c.Origin.File,
			PullSecret:     newObject(c.Origin.PullSecret),
			ServiceAccount: newObject(c.Origin.ServiceAccount),
		},
		CachedUntil: timeJSON(c.CachedUntil),
		Missing:     missingParts(c),
	}
}

func timeJSON(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Second)
	return &t
}

// String describes the source, such as "pull secret team/registry".
func (s Origin) String() string {
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
