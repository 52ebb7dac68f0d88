// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/regcred/regcred/dockerconfig"
)

// Helper is the name of regcred's helper in clients' files: the program's name
// after "docker-credential-".
const Helper = "regcred"

// Fields of a config.json.
const (
	credHelpers = "credHelpers"
	credsStore  = "credsStore"
	auths       = "auths"
)

// Others decides about entries of other helpers for our hosts.
type Others string

// The policies.
const (
	Refuse  Others = "refuse"  // fail, and change nothing
	Keep    Others = "keep"    // leave the entry
	Replace Others = "replace" // replace the entry, which cannot be restored
)

// Desired describes the entries that a file should have.
type Desired struct {
	Hosts    []string // keys of credHelpers
	AllHosts bool     // also credsStore: every host that is not in credHelpers
	Others   Others   // "" means Refuse
}

// Entries are the helpers in a file.
type Entries struct {
	Hosts  []string          // that use regcred's helper, in the file's order
	Store  string            // credsStore
	Others map[string]string // the other helpers, by key
}

// Read returns the entries of a file. It fails if the file cannot be changed
// safely, because its readers may interpret it differently. The error contains
// no values except helper names.
func Read(data []byte) (Entries, error) {
	e := Entries{Others: map[string]string{}}
	doc, err := parse(data)
	if err != nil || doc == nil {
		return e, err
	}
	e.Store = doc.store
	for _, m := range doc.helpers {
		switch name := doc.helperOf(m); name {
		case Helper:
			e.Hosts = append(e.Hosts, m.Key)
		default:
			e.Others[m.Key] = name
		}
	}
	return e, nil
}

// Put returns a file with the wanted entries instead of all previous entries
// for regcred's helper. All other bytes stay. Data is nil for a missing file.
func Put(data []byte, w Desired) ([]byte, error) {
	clean, err := Remove(data)
	if err != nil {
		return nil, err
	}
	if clean == nil {
		return created(w), nil
	}
	doc, err := parse(clean)
	if err != nil {
		return nil, err
	}
	hosts, err := doc.resolveConflicts(w)
	if err != nil {
		return nil, err
	}
	if err := doc.putHelpers(hosts); err != nil {
		return nil, err
	}
	if w.AllHosts {
		if err := doc.checkCredsStoreConflict(); err != nil {
			return nil, err
		}
		doc.object = doc.object.prepend(doc.style().pair(credsStore, Helper))
	}
	return doc.bytes(), nil
}

// Remove returns a file without the entries for regcred's helper, or nil if
// only they are the file's content.
func Remove(data []byte) ([]byte, error) {
	doc, err := parse(data)
	if err != nil || doc == nil {
		return nil, err
	}
	if bytes.Equal(data, created(doc.ours())) {
		return nil, nil
	}
	kept, err := doc.object.removeIf(func(m member) bool { return isField(m, credsStore) && doc.store == Helper })
	if err != nil {
		return nil, err
	}
	doc.object = kept
	if err := doc.dropHelpers(func(m member) bool { return doc.helperOf(m) == Helper }); err != nil {
		return nil, err
	}
	return doc.bytes(), nil
}

// created returns the text of a new file.
func created(w Desired) []byte {
	s := style{"\n", "\t", ": "}
	var list []string
	if w.AllHosts {
		list = append(list, s.pair(credsStore, Helper))
	}
	if len(w.Hosts) > 0 {
		list = append(list, s.nested(credHelpers, s.pairs(w.Hosts)))
	}
	if len(list) == 0 {
		return nil
	}
	return []byte("{\n\t" + strings.Join(list, ",\n\t") + "\n}\n")
}

func (s style) pairs(hosts []string) (list []string) {
	for _, h := range hosts {
		list = append(list, s.pair(h, Helper))
	}
	return list
}

// document is a config.json.
type document struct {
	before, after []byte // white space
	object
	nested  object   // credHelpers; nil if it is not set
	helpers []member // members of nested
	store   string   // credsStore
}

func (d *document) bytes() []byte { return slices.Concat(d.before, d.object, d.after) }

// parse parses a file. It returns nil for a missing file.
func parse(data []byte) (*document, error) {
	switch {
	case data == nil:
		return nil, nil
	case len(bytes.TrimSpace(data)) == 0:
		return nil, errors.New("the file is empty: remove it")
	case bytes.HasPrefix(data, []byte("\ufeff")):
		return nil, errors.New("the file begins with a byte order mark, which clients cannot read: save the file without it")
	}
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		at := len(data)
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = int(syntax.Offset)
		}
		return nil, fmt.Errorf("line %d: invalid JSON", 1+bytes.Count(data[:min(at, len(data))], []byte("\n")))
	}
	begin := len(data) - len(bytes.TrimLeft(data, space))
	end := len(bytes.TrimRight(data, space))
	d := &document{before: data[:begin], object: data[begin:end], after: data[end:]}
	return d, d.read()
}

// isField reports whether clients read a member as a field. Like encoding/json,
// they ignore case.
func isField(m member, name string) bool { return strings.EqualFold(m.Key, name) }

// read finds the helpers in the file.
func (d *document) read() error {
	list, err := d.members()
	if err != nil {
		return err
	}
	for _, name := range []string{credHelpers, credsStore, auths} {
		n := 0
		for _, m := range list {
			if isField(m, name) {
				n++
			}
		}
		if n > 1 {
			return fmt.Errorf("%s occurs %d times, and different clients treat duplicates differently: keep only one", name, n)
		}
	}
	d.nested, d.helpers, d.store = nil, nil, ""
	for _, m := range list {
		switch {
		case isField(m, credsStore):
			if json.Unmarshal(d.value(m), &d.store) != nil {
				return errors.New("credsStore must be a string; docker cannot load the file otherwise")
			}
		case isField(m, credHelpers):
			d.nested = d.value(m)
			if err := d.readHelpers(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *document) readHelpers() (err error) {
	if d.helpers, err = d.nested.members(); err != nil {
		return errors.New("credHelpers must be an object: fix or remove it")
	}
	seen := map[string]bool{}
	for _, m := range d.helpers {
		var name string
		if json.Unmarshal(d.nested.value(m), &name) != nil || d.nested[m.Value.Start] != '"' {
			return fmt.Errorf("credHelpers: the entry for %q must be a string", m.Key)
		}
		if seen[m.Key] {
			return fmt.Errorf("credHelpers contains %q twice, and different clients treat duplicates differently: keep only one", m.Key)
		}
		seen[m.Key] = true
	}
	return nil
}

// helperOf returns the helper in an entry of credHelpers.
func (d *document) helperOf(m member) (name string) {
	_ = json.Unmarshal(d.nested.value(m), &name) // read checked it
	return name
}

// ours returns the file's entries for regcred's helper.
func (d *document) ours() Desired {
	w := Desired{AllHosts: d.store == Helper}
	for _, m := range d.helpers {
		if d.helperOf(m) == Helper {
			w.Hosts = append(w.Hosts, m.Key)
		}
	}
	return w
}

// resolveConflicts removes or keeps entries of other helpers, and returns the
// hosts that get an entry.
func (d *document) resolveConflicts(w Desired) (hosts []string, err error) {
	taken := map[string]string{}
	for _, m := range d.helpers {
		if slices.Contains(w.Hosts, m.Key) {
			taken[m.Key] = d.helperOf(m)
		}
	}
	switch {
	case len(taken) == 0:
		return w.Hosts, nil
	case w.Others == Keep:
		return slices.DeleteFunc(slices.Clone(w.Hosts), func(h string) bool { _, ok := taken[h]; return ok }), nil
	case w.Others == Replace:
		return w.Hosts, d.dropHelpers(func(m member) bool { _, ok := taken[m.Key]; return ok })
	}
	return nil, &TakenError{taken}
}

// TakenError reports hosts that have another helper.
type TakenError struct {
	Helpers map[string]string // by host
}

func (e *TakenError) Error() string {
	return "another helper is configured for " + describe(e.Helpers)
}

func describe(helpers map[string]string) string {
	var list []string
	for host, name := range helpers {
		list = append(list, fmt.Sprintf("%s (%q)", host, name))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// checkCredsStoreConflict rejects a file in which a credsStore would hide other
// credentials from docker.
func (d *document) checkCredsStoreConflict() error {
	list, err := d.members()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(list, func(m member) bool { return isField(m, credsStore) }) {
		return &StoreError{Store: d.store}
	}
	file, err := dockerconfig.ParseFile(d.object)
	if err != nil {
		return err
	}
	if len(file.Auths) > 0 {
		return &StoreError{Logins: slices.Sorted(maps.Keys(file.Auths))}
	}
	return nil
}

// StoreError reports why regcred's helper cannot serve all hosts.
type StoreError struct {
	Store  string   // the credsStore that is already set
	Logins []string // keys of auths, which docker ignores if there is a credsStore
}

func (e *StoreError) Error() string {
	if len(e.Logins) > 0 {
		return "docker would no longer find its credentials for " + strings.Join(e.Logins, ", ") + ": a credsStore replaces auths"
	}
	return fmt.Sprintf("credsStore is already set to %q", e.Store)
}

func (d *document) putHelpers(hosts []string) error {
	switch {
	case len(hosts) == 0:
		return nil
	case d.nested == nil:
		s := d.style()
		d.object = d.object.prepend(s.nested(credHelpers, s.pairs(hosts)))
	default:
		d.setHelpers(d.nested.prepend(d.nested.style().pairs(hosts)...))
	}
	return d.read()
}

// dropHelpers removes entries from credHelpers, and credHelpers itself if
// regcred added it and it has no other entry.
func (d *document) dropHelpers(drop func(member) bool) error {
	if !slices.ContainsFunc(d.helpers, drop) {
		return d.read()
	}
	ours := d.nested.isNested()
	kept, err := d.nested.removeIf(drop)
	if err != nil {
		return err
	}
	d.setHelpers(kept)
	if left, err := kept.members(); err == nil && len(left) == 0 && ours {
		if d.object, err = d.object.removeIf(func(m member) bool { return isField(m, credHelpers) }); err != nil {
			return err
		}
	}
	return d.read()
}

func (d *document) setHelpers(o object) {
	list, _ := d.members() // read checked it
	for _, m := range list {
		if isField(m, credHelpers) {
			d.object = d.object.setValue(m, o)
			return
		}
	}
}
