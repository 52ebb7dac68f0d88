// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Config is a CredentialProviderConfig: the providers of one file, or of a
// directory of files merged in lexical order (group kubelet.config.k8s.io,
// KEP-2133). The predecessor's RegistryCredentialConfig becomes one too. Make
// one with [Load]; it is read-only afterwards and safe for concurrent use.
type Config struct {
	Providers []Provider

	path  string       // as given to Load
	files []configFile // in the order in which they were merged
	dir   bool         // path is a directory
}

// Provider is one entry of a [Config]: an executable, the images it is asked
// about, and how it is called. The JSON names are those of the kubelet's
// types; [Load] is the only decoder.
//
// One of the predecessor has the APIVersion [plugin.OutOfTree], its
// imageMatchers as MatchImages, its extraArgs as Env, with names in upper
// case, and a DefaultCacheDuration of 0.
type Provider struct {
	Name                 string           `json:"name"`
	MatchImages          []string         `json:"matchImages"`
	DefaultCacheDuration *time.Duration   `json:"defaultCacheDuration"`
	APIVersion           string           `json:"apiVersion"`
	Args                 []Secret         `json:"args,omitempty"` // people put tokens there
	Env                  []EnvVar         `json:"env,omitempty"`
	TokenAttributes      *TokenAttributes `json:"tokenAttributes,omitempty"`
}

// EnvVar is an environment variable that a provider's plugin gets beside the
// host's environment. Values are secrets: people put tokens there.
type EnvVar struct {
	Name  string `json:"name"`
	Value Secret `json:"value"`
}

// TokenAttributes puts a provider into service-account mode (KEP-4412).
type TokenAttributes struct {
	ServiceAccountTokenAudience          string         `json:"serviceAccountTokenAudience"`
	CacheType                            TokenCacheType `json:"cacheType"`
	RequireServiceAccount                *bool          `json:"requireServiceAccount"`
	RequiredServiceAccountAnnotationKeys []string       `json:"requiredServiceAccountAnnotationKeys,omitempty"`
	OptionalServiceAccountAnnotationKeys []string       `json:"optionalServiceAccountAnnotationKeys,omitempty"`
}

// TokenCacheType says what an answer in service-account mode is cached under.
type TokenCacheType string

const (
	// CachePerServiceAccount: answers are shared by the pods of one service account.
	CachePerServiceAccount TokenCacheType = "ServiceAccount"
	// CachePerToken: answers are kept per token. Required where the plugin
	// returns the token itself.
	CachePerToken TokenCacheType = "Token"
)

// File is one file of a [Config], as [Load] read it. It prints as its name
// alone, and cannot be written as JSON: values of args and env in Data are
// secrets.
type File struct {
	Name         string // the path given to Load or, for a directory, of its entry
	Kind         string // CredentialProviderConfig, or the predecessor's, as written
	APIVersion   string // of the file itself, e.g. "kubelet.config.k8s.io/v1"
	Data         []byte // all of it: a second YAML document is ignored, but in here
	First, Count int    // its providers: Config.Providers[First:First+Count]
}

// Files returns the files of c in the order in which they were merged; none
// for a Config that does not come from [Load]. Data is shared with c, and
// must not be changed.
func (c *Config) Files() []File {
	files := make([]File, len(c.files))
	for i, f := range c.files {
		files[i] = f.File
	}
	return files
}

// configFile is a File, with where things stand in it.
type configFile struct {
	File
	source  *source
	argKeys [][]string // of the predecessor's providers: see extraArgs.keys
}

// FieldError is a problem at one place of a configuration.
type FieldError struct {
	File   string
	Line   int    // from 1; 0 if unknown
	Column int    // in bytes, from 1; 0 if unknown
	Path   string // e.g. "providers[2].matchImages[0]"
	Value  string // the offending value; empty for values of env and args
	Msg    string // what is wrong and what to do

	err error // of the system, if the file could not be read
}

// Unwrap returns the system's error if the file could not be read, such as
// [io/fs.ErrPermission]; else nil.
func (e *FieldError) Unwrap() error { return e.err }

// Error is "file:line:column: path: message: \"value\"", without the parts that are unknown.
func (e *FieldError) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			fmt.Fprintf(&b, ":%d", e.Line)
		}
		if e.Line > 0 && e.Column > 0 {
			fmt.Fprintf(&b, ":%d", e.Column)
		}
		b.WriteString(": ")
	}
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Msg)
	if e.Value != "" {
		fmt.Fprintf(&b, ": %q", e.Value)
	}
	return b.String()
}

// Load reads and decodes the configuration at path: one file, or a directory
// whose *.json, *.yaml and *.yml files are merged in lexical order. It
// accepts and rejects what kubelet 1.36 accepts and rejects
// (pkg/credentialprovider/plugin/config.go), except that it refuses what is
// not a regular file, more than 16 MiB or half a million lines and commas
// together, YAML aliases that expand to more than 16 MiB, and the apiVersion
// of the kubelet's in-memory form (__internal). Beside that it accepts the
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
		if err != nil {
			errs = append(errs, err)
		}
	}
	var twice problems
	c.duplicateNames(&twice)
	if err := errors.Join(append(errs, twice.join())...); err != nil {
		return nil, err
	}
	return c, nil
}

// add decodes one file and appends its providers.
func (c *Config) add(name string, data []byte) error {
	f := configFile{File: File{Name: name, Data: data, First: len(c.Providers)}, source: newSource(name, data)}
	d, err := decodeFile(f.source)
	if err != nil {
		return err
	}
	f.Kind, f.APIVersion, f.Count, f.argKeys = d.Kind, d.APIVersion, len(d.providers), d.argKeys
	c.files = append(c.files, f)
	c.Providers = append(c.Providers, d.providers...)
	return nil
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
			list.add(c.problem(i, p.Name, fmt.Sprintf("the name of another provider (%s); names must be unique across all files", c.place(j, "name")), "name"))
			continue
		}
		first[p.Name] = i
	}
}

// Hash returns "sha256:" and the hex digest that the kubelet (1.34 and later)
// exposes as the label of kubelet_credential_provider_config_info. For a
// Config that does not come from [Load] it is the digest of no file.
func (c *Config) Hash() string {
	h := sha256.New()
	for _, f := range c.files {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(f.Data))))
		h.Write(f.Data)
	}
	return fmt.Sprintf("sha256:%x", h.Sum(nil))
}
