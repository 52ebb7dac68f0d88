// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/dockerconfig"
	"github.com/regcred/regcred/internal/jsonplace"
	"github.com/regcred/regcred/match"
)

// docker is a docker config as it is written, next to what a kubelet makes of it.
type docker struct {
	data   []byte
	legacy bool // a .dockercfg
	now    time.Time
	live   bool // an object, which somebody may renew
	place  placer

	lines    jsonplace.Lines
	problems []*dockerconfig.Problem // for which a kubelet reads nothing of it
	root     *jsonplace.Value        // nil if it is not JSON
	entries  []dockerEntry           // in their order
	store    *jsonplace.Member       // credsStore, if it has a name
	emptied  []jsonplace.Member      // auths that are null and take back those before
	helpers  []jsonplace.Member      // of credHelpers
	helped   map[string]bool         // by the scopes of their keys
}

// dockerEntry is one member of auths.
type dockerEntry struct {
	*docker
	jsonplace.Member
	fields   map[string]*jsonplace.Value // texts, by the name of the field in lower case
	user     string
	password string
	source   *jsonplace.Value // of user and password: auth, if it is set
	broken   bool             // it makes the file invalid
	replaced bool             // another of the same key follows
	lost     bool             // auths that is null follows
	apart    bool             // a rule for the file speaks of it
	key      match.Key        // as a kubelet compares it
	parses   bool             // otherwise a kubelet leaves it out
}

// read takes the file apart.
func (d *docker) read() {
	d.lines = jsonplace.NewLines(d.data)
	if d.legacy {
		d.problems = dockerconfig.ProblemsLegacy(d.data)
	} else {
		d.problems = dockerconfig.Problems(d.data)
	}
	if len(d.problems) > 0 && d.problems[0].Kind == "" {
		return // too large to take apart
	}
	root, err := jsonplace.Parse(d.data)
	if err != nil || root.Kind != jsonplace.Object {
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
			// Of two, the members of both count, but for those that a null follows.
			if m.Kind == jsonplace.Null && len(d.entries) > 0 {
				d.emptied = append(d.emptied, m)
				for i := range d.entries {
					d.entries[i].lost = true
				}
			}
			d.readEntries(m.Value)
		case strings.EqualFold(m.Key, "credsStore") && m.Text != "":
			d.store = &m
		case strings.EqualFold(m.Key, "credHelpers"):
			d.helpers = append(d.helpers, m.Members...)
			d.helped = map[string]bool{}
			for _, h := range d.helpers {
				d.helped[dockerconfig.Scope(h.Key)] = true
			}
		}
	}
}

func (d *docker) readEntries(list *jsonplace.Value) {
	last := map[string]int{}
	for i := range d.entries {
		if !d.entries[i].lost {
			last[d.entries[i].Key] = i
		}
	}
	misplaced := isLogin(list)
	for _, m := range list.Members {
		if i, seen := last[m.Key]; seen {
			d.entries[i].replaced = true
		}
		last[m.Key] = len(d.entries)
		e := d.readEntry(m)
		e.apart = misplaced || strings.EqualFold(m.Key, "auths") && isLoginList(m.Value)
		d.entries = append(d.entries, e)
	}
}

func (d *docker) readEntry(m jsonplace.Member) dockerEntry {
	e := dockerEntry{docker: d, Member: m, source: m.Value, fields: map[string]*jsonplace.Value{}}
	if keys := match.Keys([]string{m.Key}); len(keys) == 1 {
		e.key, e.parses = keys[0], true
	}
	for _, f := range m.Members {
		switch name := fieldName(f.Key); {
		case f.Kind == jsonplace.String:
			e.fields[name] = f.Value
		case f.Kind != jsonplace.Null && (name == "username" || name == "password" || name == "auth" || name == "email"):
			e.broken = true
		}
	}
	e.user, e.password = e.text("username"), e.text("password")
	if auth := e.text("auth"); auth != "" {
		user, password, err := dockerconfig.DecodeAuth(auth)
		e.user, e.password, e.broken = user, password.Reveal(), err != nil
		e.source = e.fields["auth"]
	}
	return e
}

// fieldName is the name of a field in lower case, as encoding/json folds it.
func fieldName(key string) string {
	for _, name := range []string{"auth", "username", "password", "email", "identitytoken", "registrytoken"} {
		if strings.EqualFold(key, name) {
			return name
		}
	}
	return strings.ToLower(key)
}

// text is the value of a field, "" if there is none.
func (e *dockerEntry) text(field string) string {
	if v := e.fields[field]; v != nil {
		return v.Text
	}
	return ""
}

// where is the place of a field's value or, if it comes from auth, of that.
func (e *dockerEntry) where(field string) (offset int, path string) {
	switch v := e.fields[field]; {
	case e.source == e.fields["auth"] && e.source != nil && (field == "username" || field == "password"):
		return e.source.Start, e.path() + ".auth"
	case v != nil:
		return v.Start, e.path() + "." + field
	}
	return e.Start, e.path()
}

// path is that of the entry.
func (e *dockerEntry) path() string {
	if e.legacy {
		return "[" + dockerconfig.ShowKey(e.Key) + "]"
	}
	return "auths[" + dockerconfig.ShowKey(e.Key) + "]"
}

// shown is the key as far as a message shows it.
func (e *dockerEntry) shown() string { return dockerconfig.ShowKey(e.Key) }

// hasToken reports whether e has what docker exchanges for a token, and no
// kubelet reads.
func (e *dockerEntry) hasToken() bool {
	return e.text("identitytoken") != "" || e.text("registrytoken") != ""
}

// withHelper reports whether docker asks a helper for e's registry.
func (e *dockerEntry) withHelper() bool {
	return e.store != nil || len(e.helped) > 0 && e.helped[dockerconfig.Scope(e.Key)]
}

// counts reports whether nothing further below takes e's place.
func (e *dockerEntry) counts() bool { return !e.replaced && !e.lost }

// logins counts the entries of which a kubelet hands a user name to the runtime.
func (d *docker) logins() int {
	n := 0
	for i := range d.entries {
		if e := &d.entries[i]; len(d.problems) == 0 && e.counts() && e.user != "" {
			n++
		}
	}
	return n
}

// placer says where something stands that stands at a line and column of a
// docker config, and what a message adds where that is not in the file itself.
type placer func(line, column int, path string) (at config.Position, beside string)

func inFileNamed(name string) placer {
	return func(line, column int, path string) (config.Position, string) {
		return config.Position{File: name, Line: line, Column: column, Path: path}, ""
	}
}

// at returns one remark about what stands at an offset.
func (d *docker) at(offset int, path, suggestion, format string, args ...any) []remark {
	line, column := d.lines.At(offset)
	return d.atLine(line, column, path, suggestion, format, args...)
}

func (d *docker) atLine(line, column int, path, suggestion, format string, args ...any) []remark {
	where, beside := d.place(line, column, path)
	return inDocument(where, suggestion, format+"%s", append(args, beside)...)
}

// isLogin reports whether a value looks like a member of auths.
func isLogin(v *jsonplace.Value) bool {
	return slices.ContainsFunc(v.Members, func(m jsonplace.Member) bool {
		switch fieldName(m.Key) {
		case "auth", "username", "password", "identitytoken", "registrytoken":
			return m.Kind == jsonplace.String
		}
		return false
	})
}

// list reports whether a value looks like auths.
func isLoginList(v *jsonplace.Value) bool {
	return slices.ContainsFunc(v.Members, func(m jsonplace.Member) bool { return isLogin(m.Value) })
}

// member returns a member of the document by its name, whatever its case.
func (d *docker) member(name string) *jsonplace.Member {
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

// say returns one remark about a field of the entry.
func (e *dockerEntry) say(field, suggestion, format string, args ...any) []remark {
	offset, path := e.where(field)
	return e.at(offset, path, suggestion, format, args...)
}
