// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/dockerconfig"
	"github.com/regcred/regcred/internal/dockerjson"
	"github.com/regcred/regcred/internal/jsonplace"
	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/lint/internal/rules"
)

// dockerConfig is a docker config with the positions of its entries and the problems for which the
// kubelet rejects it.
type dockerConfig struct {
	data          []byte
	legacy        bool // a .dockercfg
	now           time.Time
	fromAPIServer bool // from an API server, where a controller might renew the credentials
	locate        positionMapper

	lines      jsonplace.LineIndex
	problems   []*dockerjson.Problem // problems for which the kubelet rejects the file
	limit      error                 // the limit of regcred that the file exceeds, or nil
	root       *jsonplace.Value      // nil if the file is not JSON
	entries    []authEntry           // in file order
	credsStore *jsonplace.Member     // the credsStore field if it is not empty
	nullAuths  []jsonplace.Member    // null auths members, which discard the preceding entries
	helpers    []jsonplace.Member    // members of credHelpers
	withHelper map[string]bool       // registries in credHelpers, keyed by scope
}

// authEntry is a member of auths.
type authEntry struct {
	config *dockerConfig
	jsonplace.Member
	fields     map[string]*jsonplace.Value // string fields by lower-case name
	user       string
	password   string
	source     *jsonplace.Value // source of the user name and password: auth if set
	broken     bool             // the kubelet cannot decode the entry and rejects the file
	replaced   bool             // a later entry has the same key
	discarded  bool             // a later null auths discards the entry
	misplaced  bool             // at the wrong level, which the rules for the whole file report
	key        location.Key     // key as compared by the kubelet
	isValidKey bool             // if false, the kubelet ignores the entry
}

// parseEntries parses the file and finds the position of each entry.
func (d *dockerConfig) parseEntries() {
	d.lines = jsonplace.NewLineIndex(d.data)
	format, layout := dockerconfig.ConfigJSON, dockerjson.LayoutKubelet
	if d.legacy {
		format, layout = dockerconfig.DockerCfg, dockerjson.LayoutKubeletLegacy
	}
	_, err := dockerconfig.Parse(d.data, format)
	if errors.Is(err, regularfile.ErrLimit) {
		d.limit = err
		return
	}
	d.problems = dockerjson.FindProblems(d.data, err, layout)
	root, err := jsonplace.Parse(d.data)
	if err != nil || root.Kind != jsonplace.KindObject {
		return
	}
	d.root = root
	if d.legacy {
		d.readEntries(root)
		return
	}
	for _, m := range root.Members {
		switch {
		case strings.EqualFold(m.Key, "auths"):
			// The kubelet merges repeated auths, but a null auths discards the preceding entries.
			if m.Kind == jsonplace.KindNull && len(d.entries) > 0 {
				d.nullAuths = append(d.nullAuths, m)
				for i := range d.entries {
					d.entries[i].discarded = true
				}
			}
			d.readEntries(m.Value)
		case strings.EqualFold(m.Key, "credsStore") && m.Text != "":
			d.credsStore = &m
		case strings.EqualFold(m.Key, "credHelpers"):
			d.helpers = append(d.helpers, m.Members...)
			d.withHelper = map[string]bool{}
			for _, h := range d.helpers {
				d.withHelper[dockerconfig.Scope(h.Key)] = true
			}
		}
	}
}

func (d *dockerConfig) readEntries(list *jsonplace.Value) {
	last := map[string]int{}
	for i := range d.entries {
		if !d.entries[i].discarded {
			last[d.entries[i].Key] = i
		}
	}
	noRegistry := looksLikeEntry(list)
	for _, m := range list.Members {
		if i, seen := last[m.Key]; seen {
			d.entries[i].replaced = true
		}
		last[m.Key] = len(d.entries)
		e := d.readEntry(m)
		e.misplaced = noRegistry || strings.EqualFold(m.Key, "auths") && looksLikeAuthsMap(m.Value)
		d.entries = append(d.entries, e)
	}
}

func (d *dockerConfig) readEntry(m jsonplace.Member) authEntry {
	e := authEntry{config: d, Member: m, source: m.Value, fields: map[string]*jsonplace.Value{}}
	if keys := location.ParseKeys([]string{m.Key}); len(keys) == 1 {
		e.key, e.isValidKey = keys[0], true
	}
	for _, f := range m.Members {
		switch name := fieldName(f.Key); {
		case f.Kind == jsonplace.KindString:
			e.fields[name] = f.Value
		case f.Kind != jsonplace.KindNull && (name == "username" || name == "password" || name == "auth" || name == "email"):
			e.broken = true
		}
	}
	e.user, e.password = e.stringField("username"), e.stringField("password")
	if auth := e.stringField("auth"); auth != "" {
		user, password, err := dockerjson.DecodeAuth(auth)
		e.user, e.password, e.broken = user, password, err != nil
		e.source = e.fields["auth"]
	}
	return e
}

// fieldName returns a field's name in lower case. It ignores the case of known names in the same
// way as encoding/json.
func fieldName(key string) string {
	for _, name := range []string{"auth", "username", "password", "email", "identitytoken", "registrytoken"} {
		if strings.EqualFold(key, name) {
			return name
		}
	}
	return strings.ToLower(key)
}

func (e *authEntry) stringField(field string) string {
	if v := e.fields[field]; v != nil {
		return v.Text
	}
	return ""
}

// fieldPosition returns the position of a field's value. If the user name and password come from
// auth, their position is the position of auth.
func (e *authEntry) fieldPosition(field string) (offset int, path string) {
	switch v := e.fields[field]; {
	case e.source == e.fields["auth"] && e.source != nil && (field == "username" || field == "password"):
		return e.source.Start, e.path() + ".auth"
	case v != nil:
		return v.Start, e.path() + "." + field
	}
	return e.Start, e.path()
}

func (e *authEntry) path() string {
	if e.config.legacy {
		return "[" + dockerjson.DisplayKey(e.Key) + "]"
	}
	return "auths[" + dockerjson.DisplayKey(e.Key) + "]"
}

func (e *authEntry) displayKey() string { return dockerjson.DisplayKey(e.Key) }

// hasToken reports whether e has an identity or registry token, which docker uses but
// the kubelet ignores.
func (e *authEntry) hasToken() bool {
	return e.stringField("identitytoken") != "" || e.stringField("registrytoken") != ""
}

// usesHelper reports whether docker runs a credential helper for e's registry.
func (e *authEntry) usesHelper() bool {
	return e.config.credsStore != nil || len(e.config.withHelper) > 0 && e.config.withHelper[dockerconfig.Scope(e.Key)]
}

// isUsed reports whether no later part of the file overrides e.
func (e *authEntry) isUsed() bool { return !e.replaced && !e.discarded }

// countCredentials returns the number of entries for which the kubelet passes a user name to
// the runtime.
func (d *dockerConfig) countCredentials() int {
	n := 0
	for i := range d.entries {
		if e := &d.entries[i]; len(d.problems) == 0 && e.isUsed() && e.user != "" {
			n++
		}
	}
	return n
}

// positionMapper converts a position in a docker config to a position in the file that contains it.
// If the result is not exact, note describes the position. Messages end with note.
type positionMapper func(line, column int, path string) (at config.Position, note string)

func fileLocator(name string) positionMapper {
	return func(line, column int, path string) (config.Position, string) {
		return config.Position{File: name, Line: line, Column: column, Path: path}, ""
	}
}

// resultAtOffset returns one result at an offset in the docker config.
func (d *dockerConfig) resultAtOffset(offset int, path, fix, format string, args ...any) []rules.Result {
	line, column := d.lines.LineColumn(offset)
	return d.resultAtLine(line, column, path, fix, format, args...)
}

func (d *dockerConfig) resultAtLine(line, column int, path, fix, format string, args ...any) []rules.Result {
	where, note := d.locate(line, column, path)
	return rules.NewPositionResult(where, fix, format+"%s", append(args, note)...)
}

// looksLikeEntry reports whether a value looks like a member of auths.
func looksLikeEntry(v *jsonplace.Value) bool {
	return slices.ContainsFunc(v.Members, func(m jsonplace.Member) bool {
		switch fieldName(m.Key) {
		case "auth", "username", "password", "identitytoken", "registrytoken":
			return m.Kind == jsonplace.KindString
		}
		return false
	})
}

func looksLikeAuthsMap(v *jsonplace.Value) bool {
	return slices.ContainsFunc(v.Members, func(m jsonplace.Member) bool { return looksLikeEntry(m.Value) })
}

// topLevelMember returns the top-level member with the given name, ignoring case.
func (d *dockerConfig) topLevelMember(name string) *jsonplace.Member {
	if d.root == nil {
		return nil
	}
	for i := range d.root.Members {
		if m := &d.root.Members[i]; strings.EqualFold(m.Key, name) {
			return m
		}
	}
	return nil
}

func (e *authEntry) fieldResult(field, fix, format string, args ...any) []rules.Result {
	offset, path := e.fieldPosition(field)
	return e.config.resultAtOffset(offset, path, fix, format, args...)
}
