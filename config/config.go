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

// Config is a CredentialProviderConfig (group kubelet.config.k8s.io, KEP-2133): the providers
// of one file, or of all files in a directory. [Load], [Parse] and [ParseDir] return a Config.
// They also read a RegistryCredentialConfig of the out-of-tree proposal.
//
// A Config that a program creates from Providers has no files, and its errors have no line
// numbers. [Config.Validate] rejects the zero value. A Config is safe for concurrent use unless
// it is changed.
type Config struct {
	Providers []Provider

	path  string  // as passed to Load, Parse or ParseDir
	files []*File // in merge order
	dir   bool    // path is a directory
}

// Files returns the files of c in merge order. They are shared with c and must not be
// changed.
func (c *Config) Files() []*File { return c.files }

// Path returns the path or name passed to [Load], [Parse] or [ParseDir], and whether it
// is a directory.
func (c *Config) Path() (path string, dir bool) { return c.path, c.dir }

// Load reads and decodes the configuration at path: a file, or a directory whose *.json, *.yaml
// and *.yml files are merged in lexical order. Call [Config.Validate] to validate the result.
// Load accepts and rejects what kubelet 1.37 does (pkg/credentialprovider/plugin/config.go), with
// these exceptions:
//
//   - It rejects files that are not regular, and the apiVersion of the kubelet's
//     in-memory form (__internal).
//   - It rejects more than 16 MiB, and more than 131,072 line ends and separators. The
//     limits also apply after the expansion of YAML aliases.
//   - It accepts a RegistryCredentialConfig, which no kubelet reads.
//
// Errors have type [*FieldError]. Several errors are joined with [errors.Join]. Errors never
// contain a value of env, args or extraArgs.
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

// ParseDir is like [Load], but for the files of a directory that the caller has already read.
// It merges all files, whatever their suffix, in lexical order of their names.
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

// finishLoad returns c, or the errors if there are any, including errors for duplicate provider
// names.
func (c *Config) finishLoad(errs []error) (*Config, error) {
	var duplicates fieldErrors
	c.reportDuplicateNames(&duplicates)
	if err := errors.Join(append(errs, duplicates.joinSorted())...); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Config) addFile(left *readLimits, name string, data []byte) error {
	if err := left.consume(name, data); err != nil {
		return err
	}
	f := &File{Name: name, First: len(c.Providers), data: func() []byte { return data }, source: newSourceFile(name, data)}
	d, err := decodeFile(f.source, (*diagnosis).validateDecodableParts)
	if err != nil {
		return err
	}
	f.Kind, f.APIVersion, f.Count, f.argKeys = d.Kind, d.APIVersion, len(d.providers), d.argKeys
	c.files = append(c.files, f)
	c.Providers = append(c.Providers, d.providers...)
	return nil
}

// Hash returns "sha256:" and a hex digest. Since 1.34, kubelets expose it as a label of the
// metric kubelet_credential_provider_config_info. The hash input is, for each file, its length
// as eight bytes in big-endian order, followed by its content.
func (c *Config) Hash() string {
	h := sha256.New()
	for _, f := range c.files {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(f.Data()))))
		h.Write(f.Data())
	}
	return fmt.Sprintf("sha256:%x", h.Sum(nil))
}

// reportDuplicateNames reports each provider that has the same name as an earlier provider. The
// kubelet rejects duplicate names when it loads the configuration, not when it validates it.
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

// Position returns the position of a field of a provider, such as "matchImages[0]". If the
// field is absent, it returns the position of the nearest parent. The path "" means the
// provider itself. provider is an index in c.Providers, but the index in the result's Path
// counts only the providers of the same file.
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

// Command is like [Provider.Command] for provider i. In addition, it sets Place, so that
// redacted text in standard error shows where the secret is configured.
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

// hasField reports whether a field of a provider is present in the file, even if it is empty or
// null. It returns false for a Config without files.
func (c *Config) hasField(provider int, rest ...any) bool {
	f, index := c.fileOfProvider(provider)
	if f == nil {
		return false
	}
	full := append(fieldPath{"providers", index}, rest...)
	_, _, length := f.source.findNode(full)
	return length == len(full)
}

// fileOfProvider returns the file that contains a provider, and the provider's index in that
// file. The file is nil if the Config has no files.
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

// isOutOfTree reports whether provider i comes from a RegistryCredentialConfig. If the provider
// has no file, its APIVersion decides.
func (c *Config) isOutOfTree(i int) bool {
	if f, _ := c.fileOfProvider(i); f != nil {
		return f.OutOfTree()
	}
	return c.Providers[i].APIVersion == plugin.OutOfTree
}

// Format writes only the path and the providers' names, for every verb, because files contain
// secrets.
func (c Config) Format(f fmt.State, _ rune) {
	names := make([]string, len(c.Providers))
	for i, p := range c.Providers {
		names[i] = p.Name
	}
	fmt.Fprintf(f, "%s%v", c.path, names)
}

// LogValue returns the same text as Format.
func (c Config) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(c)) }
