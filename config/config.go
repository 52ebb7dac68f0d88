// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sort"

	"github.com/regcred/regcred/plugin"
)

// Config is a CredentialProviderConfig: the providers of one file, or of a
// directory of files merged in lexical order (group kubelet.config.k8s.io,
// KEP-2133). The predecessor's RegistryCredentialConfig becomes one too. [Load],
// [Parse] and [ParseDir] make one; one that is put together from Providers has
// no files, and its problems no lines. The zero value has no providers, which
// [Config.Validate] refuses. A Config must not be changed once it is in use,
// and is then safe for concurrent use.
type Config struct {
	Providers []Provider

	path  string  // as given to Load
	files []*File // in the order in which they were merged
	dir   bool    // path is a directory
}

// Files returns the files of c in the order in which they were merged; none
// for a Config that was put together otherwise. What they point to is shared
// with c, and must not be changed.
func (c *Config) Files() []*File { return c.files }

// Path returns what [Load] was given, or the name given to [Parse], and whether
// that is a directory.
func (c *Config) Path() (path string, dir bool) { return c.path, c.dir }

// Load reads and decodes the configuration at path: one file, or a directory
// whose *.json, *.yaml and *.yml files are merged in lexical order. It
// accepts and rejects what kubelet 1.37 accepts and rejects
// (pkg/credentialprovider/plugin/config.go), except that it refuses what is
// not a regular file, more than 16 MiB or 131,072 line ends and separators
// together, YAML aliases that expand to more than that or cannot be counted,
// and the apiVersion of the kubelet's in-memory form (__internal). Beside that it accepts the
// predecessor's RegistryCredentialConfig, which no kubelet reads. It does not
// validate: see [Config.Validate].
//
// Errors are [*FieldError], several joined with [errors.Join]. They never
// hold a value of env, args or extraArgs.
func Load(path string) (*Config, error) {
	paths, dir, err := configPaths(path)
	if err != nil {
		return nil, err
	}
	c := &Config{path: path, dir: dir}
	var errs []error
	left := room{bytes: maxConfigSize, entries: maxConfigEntries}
	for _, name := range paths {
		data, err := left.read(name)
		if err == nil {
			err = c.add(name, data)
		}
		errs = append(errs, err)
	}
	return c.whole(errs)
}

// Parse is [Load] for one file that the caller has read already, with the same
// bounds and errors. The name stands in errors and findings; nothing is opened.
// Data is kept, and must not be changed afterwards.
func Parse(name string, data []byte) (*Config, error) {
	left := room{bytes: maxConfigSize, entries: maxConfigEntries}
	if err := left.take(name, data); err != nil {
		return nil, err
	}
	c := &Config{path: name}
	return c.whole([]error{c.add(name, data)})
}

// ParseDir is [Parse] for a directory, whose files the caller has read already,
// by their names in it. They are merged in lexical order, all of them, whatever
// their names end in.
func ParseDir(dir string, files map[string][]byte) (*Config, error) {
	if err := countError(dir, len(files)); err != nil {
		return nil, err
	}
	c := &Config{path: dir, dir: true}
	var errs []error
	left := room{bytes: maxConfigSize, entries: maxConfigEntries}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path, data := filepath.Join(dir, name), files[name]
		err := left.take(path, data)
		if err == nil {
			err = c.add(path, data)
		}
		errs = append(errs, err)
	}
	return c.whole(errs)
}

// whole returns c unless one of its files, or all of them together, are
// refused.
func (c *Config) whole(errs []error) (*Config, error) {
	var twice problems
	c.duplicateNames(&twice)
	if err := errors.Join(append(errs, twice.join())...); err != nil {
		return nil, err
	}
	return c, nil
}

// add decodes one file and appends its providers.
func (c *Config) add(name string, data []byte) error {
	f := &File{Name: name, First: len(c.Providers), data: func() []byte { return data }, source: newSource(name, data)}
	d, err := decodeFile(f.source, (*diagnosis).rest)
	if err != nil {
		return err
	}
	f.Kind, f.APIVersion, f.Count, f.argKeys = d.Kind, d.APIVersion, len(d.providers), d.argKeys
	c.files = append(c.files, f)
	c.Providers = append(c.Providers, d.providers...)
	return nil
}

// Hash returns "sha256:" and the hex digest that the kubelet (1.34 and later)
// exposes as the label of kubelet_credential_provider_config_info: over the
// length of each file as eight bytes, big end first, and its bytes. For a Config
// without files it is the digest of nothing.
func (c *Config) Hash() string {
	h := sha256.New()
	for _, f := range c.files {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(f.Data()))))
		h.Write(f.Data())
	}
	return fmt.Sprintf("sha256:%x", h.Sum(nil))
}

// duplicateNames finds providers that have the name of an earlier one. The
// kubelet refuses that when it loads the configuration, not when it validates.
func (c *Config) duplicateNames(list *problems) {
	first := make(map[string]int, len(c.Providers))
	for i, p := range c.Providers {
		if list.full() {
			return
		}
		if j, ok := first[p.Name]; ok {
			list.add(c.problem(i, p.Name, fmt.Sprintf("duplicate provider name (also at %s); names must be unique across all files", c.Position(j, "name")), "name"))
			continue
		}
		first[p.Name] = i
	}
}

// Position returns where something of a provider stands: rest leads on from the
// provider, for example "matchImages", 0. What is not written in the file is
// at its nearest parent. The provider is an index in c.Providers; the path in
// the result counts from the start of the file.
func (c *Config) Position(provider int, rest ...any) Position {
	f, index := c.fileOf(provider)
	full := append(FieldPath{"providers", index}, rest...)
	switch {
	case f == nil:
		return Position{Path: full.String()}
	case f.OutOfTree():
		return f.outOfTreePosition(index, rest)
	}
	return f.source.place(full)
}

// Command is [Provider.Command] of provider i, which also says of what is masked in
// standard error where in the configuration it stands.
func (c *Config) Command(i int, binDir string) plugin.Command {
	command := c.Providers[i].Command(binDir)
	configured := map[string]int{"args": len(c.Providers[i].Args), "env": len(c.Providers[i].Env)}
	command.Place = func(field string, index int) string {
		if index >= configured[field] {
			return "" // the caller has added it
		}
		return c.Position(i, field, index).FileLine()
	}
	return command
}

// has reports whether a field of a provider is written in its file, be it
// empty or null; always false for a Config that was not loaded.
func (c *Config) has(provider int, rest ...any) bool {
	f, index := c.fileOf(provider)
	if f == nil {
		return false
	}
	full := append(FieldPath{"providers", index}, rest...)
	_, _, length := f.source.find(full)
	return length == len(full)
}

// fileOf returns the file that a provider comes from and its index there; no
// file, for a Config that was not loaded.
func (c *Config) fileOf(provider int) (*File, int) {
	i := sort.Search(len(c.files), func(i int) bool { return provider < c.files[i].First+c.files[i].Count })
	if i == len(c.files) {
		return nil, provider
	}
	return c.files[i], provider - c.files[i].First
}

// problem is an error about a place in a provider.
func (c *Config) problem(provider int, value, msg string, rest ...any) *FieldError {
	return c.Position(provider, rest...).problem(value, msg)
}

// predecessor reports whether provider i is the predecessor's: by its file or,
// in a Config that was not loaded, by its protocol.
func (c *Config) outOfTree(i int) bool {
	if f, _ := c.fileOf(i); f != nil {
		return f.OutOfTree()
	}
	return c.Providers[i].OutOfTree()
}

// Format writes where c was loaded from and what providers it has, whatever the
// verb: files hold secrets.
func (c Config) Format(f fmt.State, _ rune) {
	names := make([]string, len(c.Providers))
	for i, p := range c.Providers {
		names[i] = p.Name
	}
	fmt.Fprintf(f, "%s%v", c.path, names)
}

// LogValue returns the same.
func (c Config) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(c)) }
