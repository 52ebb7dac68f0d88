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

// Config is a CredentialProviderConfig (group kubelet.config.k8s.io, KEP-2133): the
// providers of one file, or of the files in a directory. [Load], [Parse] and [ParseDir]
// return a Config, including for a RegistryCredentialConfig of the out-of-tree
// proposal. A Config assembled from Providers has no files, and its errors have no
// lines. [Config.Validate] rejects the zero value. A Config is safe for concurrent use
// unless it is changed.
type Config struct {
	Providers []Provider

	path  string  // as given to Load
	files []*File // in merge order
	dir   bool    // path is a directory
}

// Files returns the files of c in merge order. They are shared with c and must not be
// changed.
func (c *Config) Files() []*File { return c.files }

// Path returns the path or name passed to [Load], [Parse] or [ParseDir], and whether it
// is a directory.
func (c *Config) Path() (path string, dir bool) { return c.path, c.dir }

// Load reads and decodes the configuration at path: a file, or a directory whose *.json,
// *.yaml and *.yml files are merged in lexical order. It does not validate: see
// [Config.Validate]. It accepts and rejects what kubelet 1.37 accepts and rejects
// (pkg/credentialprovider/plugin/config.go), with these exceptions:
//
//   - It rejects files that are not regular, and the apiVersion of the kubelet's
//     in-memory form (__internal).
//   - It rejects more than 16 MiB, or more than 131,072 line ends and separators, also
//     after the expansion of YAML aliases.
//   - It accepts a RegistryCredentialConfig, which no kubelet reads.
//
// Errors have type [*FieldError], several joined with [errors.Join]. They never contain
// a value of env, args or extraArgs.
func Load(path string) (*Config, error) {
	paths, dir, err := configPaths(path)
	if err != nil {
		return nil, err
	}
	c := &Config{path: path, dir: dir}
	var errs []error
	left := newReadLimits()
	for _, name := range paths {
		data, err := left.read(name)
		if err == nil {
			err = c.addFile(left, name, data)
		}
		errs = append(errs, err)
	}
	return c.finishLoad(errs)
}

// Parse is like [Load], but for a file that the caller has already read. The name is
// only used in errors. The Config keeps data, which must not be changed.
func Parse(name string, data []byte) (*Config, error) {
	c := &Config{path: name}
	return c.finishLoad([]error{c.addFile(newReadLimits(), name, data)})
}

// ParseDir is [Load] for the files of a directory that the caller has read. It merges
// all of them, whatever their suffix, in lexical order of their names.
func ParseDir(dir string, files map[string][]byte) (*Config, error) {
	if err := fileCountError(dir, len(files)); err != nil {
		return nil, err
	}
	c := &Config{path: dir, dir: true}
	var errs []error
	left := newReadLimits()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		errs = append(errs, c.addFile(left, filepath.Join(dir, name), files[name]))
	}
	return c.finishLoad(errs)
}

// finishLoad returns c unless there are errors or duplicate names.
func (c *Config) finishLoad(errs []error) (*Config, error) {
	var duplicates fieldErrors
	c.reportDuplicateNames(&duplicates)
	if err := errors.Join(append(errs, duplicates.join())...); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Config) addFile(left *readLimits, name string, data []byte) error {
	if err := left.subtract(name, data); err != nil {
		return err
	}
	f := &File{Name: name, First: len(c.Providers), data: func() []byte { return data }, source: newSourceFile(name, data)}
	d, err := decodeFile(f.source, (*diagnosis).validateRemainder)
	if err != nil {
		return err
	}
	f.Kind, f.APIVersion, f.Count, f.argKeys = d.Kind, d.APIVersion, len(d.providers), d.argKeys
	c.files = append(c.files, f)
	c.Providers = append(c.Providers, d.providers...)
	return nil
}

// Hash returns "sha256:" and the hex digest that kubelets since 1.34 expose as the label
// of kubelet_credential_provider_config_info. The input is, for each file, its length as
// eight bytes in big-endian order and its content.
func (c *Config) Hash() string {
	h := sha256.New()
	for _, f := range c.files {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(f.Data()))))
		h.Write(f.Data())
	}
	return fmt.Sprintf("sha256:%x", h.Sum(nil))
}

// reportDuplicateNames reports providers with the same name as an earlier one. The
// kubelet rejects them when it loads the configuration, not when it validates it.
func (c *Config) reportDuplicateNames(list *fieldErrors) {
	first := make(map[string]int, len(c.Providers))
	for i, p := range c.Providers {
		if list.isFull() {
			return
		}
		if j, ok := first[p.Name]; ok {
			list.add(c.newFieldError(i, p.Name, fmt.Sprintf("duplicate provider name (also at %s); names must be unique across all files", c.Position(j, "name")), "name"))
			continue
		}
		first[p.Name] = i
	}
}

// Position returns the position of a field of a provider, such as "matchImages[0]", or of
// the nearest parent if the field is absent; "" is the provider itself. The provider is
// an index in c.Providers; in the result's Path it is the index in the file.
func (c *Config) Position(provider int, path string) Position {
	return c.position(provider, parsePath(path)...)
}

func (c *Config) position(provider int, path ...any) Position {
	f, index := c.fileOfProvider(provider)
	full := append(fieldPath{"providers", index}, path...)
	switch {
	case f == nil:
		return Position{Path: full.String()}
	case f.OutOfTree():
		return f.outOfTreePosition(index, path)
	}
	return f.source.valuePosition(full)
}

// Command is like [Provider.Command] for provider i. In addition, a masked part of
// standard error shows where the secret is in the configuration.
func (c *Config) Command(i int, binDir string) plugin.Command {
	command := c.Providers[i].Command(binDir)
	configured := map[string]int{"args": len(c.Providers[i].Args), "env": len(c.Providers[i].Env)}
	command.Place = func(field string, index int) string {
		if index >= configured[field] {
			return "" // added by the caller
		}
		return c.position(i, field, index).fileLine()
	}
	return command
}

// hasField reports whether a field of a provider is present in its file, even if empty or
// null. It is false for a Config without files.
func (c *Config) hasField(provider int, rest ...any) bool {
	f, index := c.fileOfProvider(provider)
	if f == nil {
		return false
	}
	full := append(fieldPath{"providers", index}, rest...)
	_, _, length := f.source.findNode(full)
	return length == len(full)
}

// fileOfProvider returns the file of a provider, or nil, and the provider's index in it.
func (c *Config) fileOfProvider(provider int) (*File, int) {
	i := sort.Search(len(c.files), func(i int) bool { return provider < c.files[i].First+c.files[i].Count })
	if i == len(c.files) {
		return nil, provider
	}
	return c.files[i], provider - c.files[i].First
}

func (c *Config) newFieldError(provider int, value, msg string, rest ...any) *FieldError {
	return c.position(provider, rest...).newFieldError(value, msg)
}

// isOutOfTree reports whether provider i comes from the out-of-tree proposal, judging
// by its file or, if it has no file, by its protocol.
func (c *Config) isOutOfTree(i int) bool {
	if f, _ := c.fileOfProvider(i); f != nil {
		return f.OutOfTree()
	}
	return c.Providers[i].APIVersion == plugin.OutOfTree
}

// Format writes the path and the providers' names for every verb, because files contain
// secrets.
func (c Config) Format(f fmt.State, _ rune) {
	names := make([]string, len(c.Providers))
	for i, p := range c.Providers {
		names[i] = p.Name
	}
	fmt.Fprintf(f, "%s%v", c.path, names)
}

// LogValue returns the text of Format.
func (c Config) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(c)) }
