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

// HelperName is the name of regcred's helper in clients' files. The program is called
// docker-credential-regcred.
const HelperName = "regcred"

// Fields of a config.json.
const (
	credHelpersField = "credHelpers"
	credsStoreField  = "credsStore"
	authsField       = "auths"
)

// ConflictPolicy specifies what to do if one of the hosts already has another helper.
type ConflictPolicy string

// The policies.
const (
	ConflictFail    ConflictPolicy = "refuse"  // fail, and change nothing
	ConflictKeep    ConflictPolicy = "keep"    // leave the entry
	ConflictReplace ConflictPolicy = "replace" // replace the entry; it cannot be restored later
)

// DesiredEntries describes the entries for regcred's helper that a file should have.
type DesiredEntries struct {
	Hosts    []string       // keys of credHelpers
	AllHosts bool           // set credsStore too, for every host that is not in credHelpers
	Others   ConflictPolicy // "" means ConflictFail
}

// HelperEntries describes the helpers in a file.
type HelperEntries struct {
	Hosts  []string          // hosts that use regcred's helper, in file order
	Store  string            // credsStore
	Others map[string]string // the other helpers, by key
}

// ReadEntries returns the helpers in a file. It returns an error if clients may interpret the file
// differently, because such a file cannot be changed safely. The error contains no values except
// helper names.
func ReadEntries(data []byte) (HelperEntries, error) {
	doc, err := parseDocument(data)
	if err != nil || doc == nil {
		return HelperEntries{}, err
	}
	return doc.entries(), nil
}

// PutEntries returns a file with the desired entries for regcred's helper. They replace all
// previous entries for the helper. All other bytes are unchanged. data is nil for a missing file.
func PutEntries(data []byte, w DesiredEntries) ([]byte, error) {
	clean, err := RemoveEntries(data)
	if err != nil {
		return nil, err
	}
	if clean == nil {
		return newFileText(w), nil
	}
	doc, err := parseDocument(clean)
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
		doc.jsonObject = doc.jsonObject.prependMembers(doc.memberStyle().stringMember(credsStoreField, HelperName))
	}
	return doc.encode(), nil
}

// RemoveEntries returns a file without the entries for regcred's helper. It returns nil if the file
// contains only what PutEntries writes to a new file.
func RemoveEntries(data []byte) ([]byte, error) {
	doc, err := parseDocument(data)
	if err != nil || doc == nil {
		return nil, err
	}
	if have := doc.entries(); bytes.Equal(data, newFileText(DesiredEntries{Hosts: have.Hosts, AllHosts: have.Store == HelperName})) {
		return nil, nil
	}
	kept, err := doc.jsonObject.removeMembersIf(func(m jsonMember) bool { return isFieldNamed(m, credsStoreField) && doc.credsStore == HelperName })
	if err != nil {
		return nil, err
	}
	doc.jsonObject = kept
	if err := doc.removeHelpers(func(m jsonMember) bool { return doc.helperNames[m.Key] == HelperName }); err != nil {
		return nil, err
	}
	return doc.encode(), nil
}

func newFileText(w DesiredEntries) []byte {
	s := jsonStyle{"\n", "\t", ": "}
	var list []string
	if w.AllHosts {
		list = append(list, s.stringMember(credsStoreField, HelperName))
	}
	if len(w.Hosts) > 0 {
		list = append(list, s.objectMember(credHelpersField, s.helperMembers(w.Hosts)))
	}
	if len(list) == 0 {
		return nil
	}
	return []byte("{\n\t" + strings.Join(list, ",\n\t") + "\n}\n")
}

func (s jsonStyle) helperMembers(hosts []string) (list []string) {
	for _, h := range hosts {
		list = append(list, s.stringMember(h, HelperName))
	}
	return list
}

type configDocument struct {
	before, after []byte // white space
	jsonObject
	credHelpers jsonObject        // credHelpers; nil if it is not set
	helpers     []jsonMember      // members of nested
	helperNames map[string]string // of the helpers, by key
	credsStore  string            // credsStore
}

func (d *configDocument) encode() []byte { return slices.Concat(d.before, d.jsonObject, d.after) }

// parseDocument parses a file. It returns nil for a missing file.
func parseDocument(data []byte) (*configDocument, error) {
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
	begin := len(data) - len(bytes.TrimLeft(data, jsonWhitespace))
	end := len(bytes.TrimRight(data, jsonWhitespace))
	d := &configDocument{before: data[:begin], jsonObject: data[begin:end], after: data[end:]}
	return d, d.readFields()
}

// isFieldNamed reports whether clients treat a member as the given field. Like
// encoding/json, they ignore case.
func isFieldNamed(m jsonMember, name string) bool { return strings.EqualFold(m.Key, name) }

// readFields reads the helpers in the file into d.
func (d *configDocument) readFields() error {
	list, err := d.parseMembers()
	if err != nil {
		return err
	}
	for _, name := range []string{credHelpersField, credsStoreField, authsField} {
		n := 0
		for _, m := range list {
			if isFieldNamed(m, name) {
				n++
			}
		}
		if n > 1 {
			return fmt.Errorf("%s occurs %d times, and different clients treat duplicates differently: keep only one", name, n)
		}
	}
	d.credHelpers, d.helpers, d.credsStore = nil, nil, ""
	for _, m := range list {
		switch {
		case isFieldNamed(m, credsStoreField):
			if json.Unmarshal(d.memberValue(m), &d.credsStore) != nil {
				return errors.New("credsStore must be a string; docker cannot load the file otherwise")
			}
		case isFieldNamed(m, credHelpersField):
			d.credHelpers = d.memberValue(m)
			if err := d.readHelpers(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *configDocument) readHelpers() (err error) {
	if d.helpers, err = d.credHelpers.parseMembers(); err != nil {
		return errors.New("credHelpers must be an object: fix or remove it")
	}
	d.helperNames = map[string]string{}
	for _, m := range d.helpers {
		var name string
		if json.Unmarshal(d.credHelpers.memberValue(m), &name) != nil || d.credHelpers[m.Value.Start] != '"' {
			return fmt.Errorf("credHelpers: the entry for %q must be a string", m.Key)
		}
		if _, twice := d.helperNames[m.Key]; twice {
			return fmt.Errorf("credHelpers contains %q twice, and different clients treat duplicates differently: keep only one", m.Key)
		}
		d.helperNames[m.Key] = name
	}
	return nil
}

func (d *configDocument) entries() HelperEntries {
	e := HelperEntries{Store: d.credsStore, Others: map[string]string{}}
	for _, m := range d.helpers {
		if name := d.helperNames[m.Key]; name == HelperName {
			e.Hosts = append(e.Hosts, m.Key)
		} else {
			e.Others[m.Key] = name
		}
	}
	return e
}

// findMember returns the file's member with the given name, ignoring case. The file has already been
// checked.
func (d *configDocument) findMember(name string) (m jsonMember, set bool) {
	list, _ := d.parseMembers()
	i := slices.IndexFunc(list, func(m jsonMember) bool { return isFieldNamed(m, name) })
	if i < 0 {
		return m, false
	}
	return list[i], true
}

// resolveConflicts applies w.Others to the hosts that have another helper. It returns the hosts
// that get an entry for regcred's helper.
func (d *configDocument) resolveConflicts(w DesiredEntries) (hosts []string, err error) {
	taken := map[string]string{}
	for _, m := range d.helpers {
		if slices.Contains(w.Hosts, m.Key) {
			taken[m.Key] = d.helperNames[m.Key]
		}
	}
	switch {
	case len(taken) == 0:
		return w.Hosts, nil
	case w.Others == ConflictKeep:
		return slices.DeleteFunc(slices.Clone(w.Hosts), func(h string) bool { _, ok := taken[h]; return ok }), nil
	case w.Others == ConflictReplace:
		return w.Hosts, d.removeHelpers(func(m jsonMember) bool { _, ok := taken[m.Key]; return ok })
	}
	return nil, &ConflictError{taken}
}

// ConflictError is returned if hosts already have another helper.
type ConflictError struct {
	Helpers map[string]string // by host
}

func (e *ConflictError) Error() string {
	var list []string
	for _, host := range slices.Sorted(maps.Keys(e.Helpers)) {
		list = append(list, fmt.Sprintf("%s (%q)", host, e.Helpers[host]))
	}
	return "another helper is configured for " + strings.Join(list, ", ")
}

// checkCredsStoreConflict returns an error if the file has a credsStore, or credentials that docker
// would ignore if there were one.
func (d *configDocument) checkCredsStoreConflict() error {
	if _, set := d.findMember(credsStoreField); set {
		return &CredsStoreError{Store: d.credsStore}
	}
	file, err := dockerconfig.ParseFile(d.jsonObject)
	if err != nil {
		return err
	}
	if len(file.Auths) > 0 {
		return &CredsStoreError{AuthKeys: slices.Sorted(maps.Keys(file.Auths))}
	}
	return nil
}

// CredsStoreError is returned if regcred's helper cannot be set as the credsStore.
type CredsStoreError struct {
	Store    string   // the credsStore that is already set
	AuthKeys []string // keys of auths, which docker ignores if there is a credsStore
}

func (e *CredsStoreError) Error() string {
	if len(e.AuthKeys) > 0 {
		return "docker would no longer find its credentials for " + strings.Join(e.AuthKeys, ", ") + ": a credsStore replaces auths"
	}
	return fmt.Sprintf("credsStore is already set to %q", e.Store)
}

func (d *configDocument) putHelpers(hosts []string) error {
	switch {
	case len(hosts) == 0:
		return nil
	case d.credHelpers == nil:
		s := d.memberStyle()
		d.jsonObject = d.jsonObject.prependMembers(s.objectMember(credHelpersField, s.helperMembers(hosts)))
	default:
		d.setHelpers(d.credHelpers.prependMembers(d.credHelpers.memberStyle().helperMembers(hosts)...))
	}
	return d.readFields()
}

// removeHelpers removes entries from credHelpers. It also removes credHelpers if
// regcred added it and no entries are left.
func (d *configDocument) removeHelpers(drop func(jsonMember) bool) error {
	if !slices.ContainsFunc(d.helpers, drop) {
		return d.readFields()
	}
	ours := d.credHelpers.startsWithSpace()
	kept, err := d.credHelpers.removeMembersIf(drop)
	if err != nil {
		return err
	}
	d.setHelpers(kept)
	if left, err := kept.parseMembers(); err == nil && len(left) == 0 && ours {
		if d.jsonObject, err = d.jsonObject.removeMembersIf(func(m jsonMember) bool { return isFieldNamed(m, credHelpersField) }); err != nil {
			return err
		}
	}
	return d.readFields()
}

func (d *configDocument) setHelpers(o jsonObject) {
	if m, set := d.findMember(credHelpersField); set {
		d.jsonObject = d.jsonObject.setMemberValue(m, o)
	}
}
