// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/dockerconfig"
)

// Helper is the name of regcred's helper in clients' files: what follows
// "docker-credential-" in the name of the program.
const Helper = "regcred"

// The fields of a config.json that name helpers, and logins.
const (
	credHelpers = "credHelpers"
	credsStore  = "credsStore"
	auths       = "auths"
)

// Others says what becomes of an entry that names another helper for a host of
// ours.
type Others string

// The things that can become of it.
const (
	Refuse  Others = "refuse"  // nothing is changed, which is an error
	Keep    Others = "keep"    // the host stays with it
	Replace Others = "replace" // ours comes in its place, and nobody remembers it
)

// Want is what a file is to say.
type Want struct {
	Hosts    []string // keys of credHelpers
	AllHosts bool     // credsStore too: every host that credHelpers does not name
	Others   Others   // "" means Refuse
}

// Entries are what a file says of helpers.
type Entries struct {
	Hosts  []string          // whose helper is regcred's, in the order of the file
	Store  string            // credsStore
	Others map[string]string // the other helpers, by key
}

// Read returns the entries of a file. Of one that cannot be changed without
// guessing what it means to its readers, it is an error, which holds none of
// the file's values but names of helpers.
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

// Put returns a file with the wanted entries in place of those that it has of
// ours, which are all that name regcred's helper, whoever wrote them. All other
// bytes stay. Data is nil if there is no file.
func Put(data []byte, w Want) ([]byte, error) {
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
	hosts, err := doc.room(w)
	if err != nil {
		return nil, err
	}
	if err := doc.putHelpers(hosts); err != nil {
		return nil, err
	}
	if w.AllHosts {
		if err := doc.storeRoom(); err != nil {
			return nil, err
		}
		doc.object = doc.object.prepend(doc.style().pair(credsStore, Helper))
	}
	return doc.bytes(), nil
}

// Remove returns a file without the entries that name regcred's helper; nil if
// it has been created for these and has nothing else.
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

// created is the text of a file that there was not.
func created(w Want) []byte {
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
	nested  object   // credHelpers; nil if there is none
	helpers []member // of nested
	store   string   // credsStore
}

func (d *document) bytes() []byte { return slices.Concat(d.before, d.object, d.after) }

// parse reads a file; nil if there is none.
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

// isField reports whether a member is read as a field, of whose name clients
// pass over the case (encoding/json does).
func isField(m member, name string) bool { return strings.EqualFold(m.Key, name) }

// read finds what the file says of helpers.
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

// helperOf is the name of the helper in an entry of credHelpers.
func (d *document) helperOf(m member) (name string) {
	_ = json.Unmarshal(d.nested.value(m), &name) // read has looked
	return name
}

// ours is what the file says of regcred's helper.
func (d *document) ours() Want {
	w := Want{AllHosts: d.store == Helper}
	for _, m := range d.helpers {
		if d.helperOf(m) == Helper {
			w.Hosts = append(w.Hosts, m.Key)
		}
	}
	return w
}

// room makes room for the wanted hosts, and returns those that get an entry.
func (d *document) room(w Want) (hosts []string, err error) {
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

// TakenError says that hosts have another helper.
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

// storeRoom refuses a file whose logins docker would not find any more if it
// asked one store for all hosts.
func (d *document) storeRoom() error {
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
		return &StoreError{Logins: keysOf(file.Auths)}
	}
	return nil
}

// StoreError says why regcred's helper cannot be the one for all hosts.
type StoreError struct {
	Store  string   // credsStore names another
	Logins []string // keys of auths, which docker does not look at if there is a credsStore
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

// dropHelpers takes entries out of credHelpers, and with the last one that
// itself, unless it had none when regcred's came.
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
	list, _ := d.members() // read has read them
	for _, m := range list {
		if isField(m, credHelpers) {
			d.object = d.object.setValue(m, o)
			return
		}
	}
}

func keysOf[V any](m map[string]V) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
