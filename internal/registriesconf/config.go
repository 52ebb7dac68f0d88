// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package registriesconf reads containers-registries.conf(5) for CRI-O and podman. It
// determines which hosts they query for an image, and in which order. Only the image's own
// host receives the kubelet's credential. Credentials for mirrors come from the runtime's
// own files.
//
//	c, err := registriesconf.Read(registriesconf.Options{Runtime: registriesconf.CRIO})
//	…
//	fmt.Println(c.Route(image)) // CRI-O tries mirror.example, then quay.io itself; …
package registriesconf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/route"
	"github.com/regcred/regcred/internal/tomlfile"
)

// Runtimes that read these files.
const (
	CRIO   = "CRI-O"
	Podman = "podman"
)

// The default files.
const (
	defaultSystemFile = "/etc/containers/registries.conf"
	defaultSystemDir  = "/etc/containers/registries.conf.d"
	defaultUserFile   = ".config/containers/registries.conf"
	defaultUserDir    = ".config/containers/registries.conf.d"
)

// Options sets the locations of files. The zero value is for podman running as root.
type Options struct {
	Runtime string // [CRIO] or [Podman]
	Root    string // root directory; "" means "/"
	Home    string // "" means /root
	File    string // used instead of registries.conf; "" means the default path
}

// Config is a runtime's merged configuration.
type Config struct {
	Runtime   string
	Files     []string         // in the order they are read
	Rejection *finding.Finding // why the runtime rejects the files, so that every pull fails; nil if it accepts them

	opts             Options
	registries       []registry        // with distinct prefixes
	searchRegistries []string          // unqualified-search-registries
	aliases          map[string]string // short names
	credentialFiles  []authFile
	fileFindings     []finding.Finding // findings from merging the files
}

// registry is a [[registry]] table.
type registry struct {
	Prefix   string     `toml:"prefix"`
	Digests  bool       `toml:"mirror-by-digest-only"`
	Blocked  bool       `toml:"blocked"`
	endpoint            // the table's own endpoint; its location may be "" for *.host
	Mirror   []endpoint `toml:"mirror"`

	file string
	line int
}

// endpoint is a location to pull images from.
type endpoint struct {
	Location string `toml:"location"`
	Insecure bool   `toml:"insecure"`
	Pull     string `toml:"pull-from-mirror"`

	NamespaceProxy string `toml:"namespace-proxy"` // decoded only to check the type

	file             string
	line             int
	hadTrailingSlash bool // the location ended with a slash
}

// parsedFile is one parsed file.
type parsedFile struct {
	Registry []registry `toml:"registry"`
	Search   *[]string  `toml:"unqualified-search-registries"`
	Aliases  any        `toml:"aliases"` // c/image ignores a value that is not a table
	Mode     string     `toml:"short-name-mode"`

	CredentialHelpers []string `toml:"credential-helpers"`                 // decoded only to check the type
	LayerHelper       string   `toml:"additional-layer-store-auth-helper"` // decoded only to check the type

	V1 *struct {
		Search   struct{ Registries []string } `toml:"search"`
		Insecure struct{ Registries []string } `toml:"insecure"`
		Block    struct{ Registries []string } `toml:"block"`
	} `toml:"registries"`
}

// Read reads a runtime's files. Without files, each image is pulled from its own host.
// If the runtime rejects the configuration, Read returns no error but sets the Config's
// Broken field.
func Read(o Options) (*Config, error) {
	o.Home = cmp.Or(o.Home, "/root")
	c := &Config{Runtime: o.Runtime, opts: o, aliases: map[string]string{}}
	main, dirs := o.configPaths()
	if err := c.mergeFile(main, false); err != nil && (o.File != "" || !errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	for _, dir := range dirs {
		entries, err := o.fs().ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", dir, regularfile.BareError(err))
		}
		for _, e := range entries {
			if e.IsDir() || !strings.HasSuffix(e.Name(), ".conf") {
				continue
			}
			if err := c.mergeFile(path.Join(dir, e.Name()), true); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	c.readAuth()
	return c, nil
}

func (o Options) fs() inroot.FS { return inroot.FS{Root: o.Root} }

// configPaths returns the configuration file and the drop-in directories. A user's file
// replaces the system's file.
func (o Options) configPaths() (file string, dirs []string) {
	home := path.Join(o.Home, defaultUserDir)
	if o.File != "" {
		return o.File, []string{defaultSystemDir, home}
	}
	if own := path.Join(o.Home, defaultUserFile); o.fs().Exists(own) {
		return own, []string{home}
	}
	return defaultSystemFile, []string{defaultSystemDir, home}
}

// mergeFile merges one file into the configuration.
func (c *Config) mergeFile(name string, dropIn bool) error {
	f, err := tomlfile.Read(context.Background(), c.opts.fs(), name)
	bad, notTOML := errors.AsType[*tomlfile.Error](err)
	if err != nil && !notTOML {
		return err
	}
	c.Files = append(c.Files, name)
	var doc parsedFile
	if !notTOML {
		bad, _ = errors.AsType[*tomlfile.Error](f.Decode(&doc))
	}
	if bad != nil {
		c.recordRejection(name, bad.Line, bad.Error(), "")
		return nil
	}
	if line, key := findPlainTable(f); key != "" {
		c.recordRejection(name, line, fmt.Sprintf("[%s] must be an array of tables", key), fmt.Sprintf("write [[%s]]", key))
		return nil
	}
	if doc.isV1() {
		c.convertV1(f, &doc, dropIn)
	}
	c.mergeDocument(f, &doc)
	return nil
}

// findPlainTable returns the line and the name of a table that should be an array of tables.
func findPlainTable(f *tomlfile.File) (line int, key string) {
	var top map[string]any
	if f.Decode(&top) != nil {
		return 0, ""
	}
	for name, value := range top {
		if !strings.EqualFold(name, "registry") {
			continue
		}
		list, ok := value.([]any)
		if !ok {
			return f.NearestLine(name), "registry"
		}
		for i, item := range list {
			r, _ := item.(map[string]any)
			for key, value := range r {
				if _, isTable := value.(map[string]any); isTable && strings.EqualFold(key, "mirror") {
					return f.NearestLine(name, strconv.Itoa(i), key), "registry.mirror"
				}
			}
		}
	}
	return 0, ""
}

func (d *parsedFile) isV1() bool {
	return d.V1 != nil && (d.V1.Search.Registries != nil || d.V1.Insecure.Registries != nil || d.V1.Block.Registries != nil)
}

// convertV1 converts a version 1 file, which has no mirrors, to version 2.
func (c *Config) convertV1(f *tomlfile.File, doc *parsedFile, dropIn bool) {
	switch line := f.Line("registries"); {
	case dropIn:
		c.recordRejection(f.Path, line, "the version 1 format is not allowed in a drop-in", "use [[registry]] tables")
		return
	case doc.Registry != nil || doc.Search != nil || doc.Aliases != nil:
		c.recordRejection(f.Path, line, "the file mixes the version 1 and version 2 formats", "use only [[registry]] tables")
		return
	}
	at := func(location string) *registry {
		i := slices.IndexFunc(doc.Registry, func(r registry) bool { return r.Location == location })
		if i < 0 {
			i = len(doc.Registry)
			doc.Registry = append(doc.Registry, registry{Prefix: location, endpoint: endpoint{Location: location}})
		}
		return &doc.Registry[i]
	}
	for _, location := range doc.V1.Block.Registries {
		at(location).Blocked = true
	}
	for _, location := range doc.V1.Insecure.Registries {
		at(location).Insecure = true
	}
	doc.Search = &doc.V1.Search.Registries
	c.fileFindings = append(c.fileFindings, finding.Finding{
		Rule: "registries-conf", Severity: finding.SeverityWarning, File: f.Path, Line: f.Line("registries"),
		Message: fmt.Sprintf("the file has the version 1 format, which newer versions of %s reject, so that they cannot pull any image", c.Runtime),
		Fix:     "use [[registry]] tables",
	})
}

// mergeDocument merges a parsed file.
func (c *Config) mergeDocument(f *tomlfile.File, doc *parsedFile) {
	if !c.normalizeTables(f, doc) {
		return
	}
	var own []registry
	for _, r := range doc.Registry {
		if first := slices.IndexFunc(own, func(o registry) bool { return o.Prefix == r.Prefix }); first >= 0 {
			c.fileFindings = append(c.fileFindings, finding.Finding{
				Rule: "mirror-passed-over", Severity: finding.SeverityWarning, File: r.file, Line: r.line,
				Message: fmt.Sprintf("the registry %q is listed twice in the file; the first one, on line %d, is used", route.RedactAddress(r.Prefix), own[first].line),
				Fix:     "merge the two",
			})
			continue
		}
		own = append(own, r)
	}
	for _, r := range own {
		at := slices.IndexFunc(c.registries, func(o registry) bool { return o.Prefix == r.Prefix })
		if at < 0 {
			c.registries = append(c.registries, r)
			continue
		}
		if before := c.registries[at]; len(before.Mirror) > 0 {
			c.fileFindings = append(c.fileFindings, finding.Finding{
				Rule: "mirror-passed-over", Severity: finding.SeverityInfo, File: before.file, Line: before.line,
				Message: fmt.Sprintf("the registry %q, including its mirrors, is completely replaced by %s:%d", route.RedactAddress(r.Prefix), r.file, r.line),
			})
		}
		c.registries[at] = r
	}
	if doc.Search != nil {
		c.searchRegistries = *doc.Search
	}
	c.mergeAliases(f, doc)
}

// recordRejection records the first reason why the runtime rejects the files.
func (c *Config) recordRejection(file string, line int, what, fix string) {
	if c.Rejection == nil {
		c.Rejection = &finding.Finding{
			Rule: "registries-conf", Severity: finding.SeverityError, File: file, Line: line,
			Message: fmt.Sprintf("%s; %s cannot pull any image with this file", what, c.Runtime),
			Fix:     fix,
		}
	}
}
