// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package convert turns credential provider configurations of older versions,
// and those of the predecessor (Out-of-Tree Credential Providers), into
// kubelet.config.k8s.io/v1, and puts them in place of their source.
//
// What a file says is decided by [config.Load] alone. From the text of a file
// this package takes comments and spelling. A result is loaded anew and compared
// with its source before anybody sees it:
//
//	res, err := convert.Convert(path, convert.Keep, convert.Options{})
//	…
//	err = res.Validate(config.Target{}, path)
//	…
//	done, err := convert.Replace(res.Files)
package convert

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/plugin"
)

const (
	configKind = "CredentialProviderConfig"
	configV1   = "kubelet.config.k8s.io/v1"
)

// Layout says into how many files a configuration goes.
type Layout int

const (
	// Keep converts each file on its own.
	Keep Layout = iota
	// Single puts all providers into one file.
	Single
	// Split puts each provider into a file of its own. The lexical order of
	// the files' names is the order of the providers.
	Split
)

// Format is how a file is written.
type Format string

// The formats. A file that begins with a brace is JSON, as for a kubelet.
const (
	YAML Format = "yaml"
	JSON Format = "json"
)

// Options are what a conversion may change beside the version of the files.
// The zero value changes nothing else.
type Options struct {
	// Format of the result. Empty is that of the source; where several files
	// become one, JSON if all of them are.
	Format Format

	// PluginAPIVersion is the version of the exec protocol for every provider.
	// Empty leaves each its own, and gives [plugin.V1] to those of the
	// predecessor, whose protocol no kubelet speaks.
	PluginAPIVersion string
}

// File is a file of a [Result].
type File struct {
	Name   string // of the source's file, with its path, if Layout was Keep; else a base name
	Data   []byte // holds values of args and env, which are secrets
	Source []byte // what the file of that name had, if Layout was Keep
}

// Changed reports whether f differs from what the file of its name had.
func (f File) Changed() bool { return string(f.Data) != string(f.Source) }

// String returns the name of f: its data is secret.
func (f File) String() string { return f.Name }

// Place is a line of a source file.
type Place struct {
	File string
	Line int // from 1
}

// Result is a converted configuration.
type Result struct {
	Source    *config.Config
	Providers []config.Provider // as they are now; their number and order are the source's
	Files     []File            // in lexical order
	Lost      []Place           // comments that are in none of the Files
	Cut       []Place           // where a second YAML document begins, which kubelets ignore

	config *config.Config // the Files, loaded anew
	staged string         // where they were loaded from
	dir    bool           // they are a directory, however many they are
}

// Convert converts the configuration at path. It returns the errors of
// [config.Load] and, if there are files of the predecessor, those of
// [config.Config.Validate]; others are left to [Result.Validate]. A result that does not have the same providers, loaded anew,
// is an error too, and a defect of this package.
func Convert(path string, layout Layout, o Options) (*Result, error) {
	src, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	if len(src.Providers) == 0 {
		// No kubelet starts with it, whatever the version.
		return nil, &config.FieldError{File: path, Path: "providers", Msg: "there are none, so there is nothing to convert"}
	}
	c := &conversion{src: src, options: o, want: wanted(src.Providers, o)}
	former := false
	for _, f := range src.Files() {
		c.files = append(c.files, newSource(f))
		former = former || f.Kind != configKind
	}
	if former {
		// The predecessor refuses what a kubelet takes, such as a variable that is
		// set twice. What would become of that, its author did not mean.
		if err := src.Validate(); err != nil {
			return nil, err
		}
	}
	if layout == Keep {
		info, err := os.Stat(path)
		c.dir = err == nil && info.IsDir()
	}
	res, err := c.convert(layout)
	if err != nil {
		return nil, fmt.Errorf("convert %s: %w", path, err)
	}
	for _, f := range c.files {
		if f.cut > 0 {
			res.Cut = append(res.Cut, Place{f.Name, f.cut})
		}
	}
	res.Lost = c.lost(res.Files)
	return res, nil
}

// conversion is one run of [Convert].
type conversion struct {
	src     *config.Config
	files   []*source
	options Options
	want    []config.Provider // what the result must say
	dir     bool              // the result is a directory, however many files it has
	bare    bool              // without comments and spelling of the source
}

// wanted returns what the providers are to be after the conversion.
func wanted(providers []config.Provider, o Options) []config.Provider {
	list := slices.Clone(providers)
	for i := range list {
		p := &list[i]
		if p.APIVersion == plugin.OutOfTree {
			p.APIVersion = plugin.V1
			p.Args = append([]plugin.Secret{"get-credentials"}, p.Args...)
		}
		if o.PluginAPIVersion != "" {
			p.APIVersion = o.PluginAPIVersion
		}
	}
	return list
}

// convert makes the files and checks them. It edits the text if it can. An
// edit may go wrong where the text is unusual (aliases, escapes, another
// encoding): then the file is written anew, and, should one of its comments
// or its spelling spoil that, without them.
func (c *conversion) convert(layout Layout) (*Result, error) {
	if layout == Single && len(c.files) == 1 {
		layout = Keep
	}
	if layout == Keep {
		if res, err := c.check(c.keep(true)); err == nil {
			return res, nil
		}
	}
	var res *Result
	var err error
	for _, c.bare = range []bool{false, true} {
		switch layout {
		case Keep:
			res, err = c.check(c.keep(false))
		case Single:
			res, err = c.check([]File{c.merge()})
		case Split:
			c.dir = true
			res, err = c.check(c.split())
		}
		if err == nil {
			return res, nil
		}
	}
	return nil, err
}

// keep converts each file on its own, by editing its text if that is wanted
// and possible.
func (c *conversion) keep(edit bool) []File {
	files := make([]File, len(c.files))
	for i, f := range c.files {
		format, ok := c.format(f.format), false
		var data []byte
		if edit && format == f.format {
			data, ok = f.edit(c.want[f.First:][:f.Count])
		}
		if !ok {
			data = render(c.document(f, c.providers(f)), format)
		}
		files[i] = File{f.Name, data, f.Data}
	}
	return files
}

// merge puts all providers into one file. What the comments of the second and
// further files say about the file goes before their first providers.
func (c *conversion) merge() File {
	format := JSON
	var list []*yaml.Node
	for i, f := range c.files {
		if f.format != JSON {
			format = YAML
		}
		providers := c.providers(f)
		if i > 0 && len(providers) > 0 {
			c.aboutFile(f, providers[0])
		}
		list = append(list, providers...)
	}
	format = c.format(format)
	return File{Name: "converted." + string(format), Data: render(c.document(c.files[0], list), format)}
}

// split puts each provider into a file of its own. What the comments say
// about their source goes into each.
func (c *conversion) split() []File {
	var files []File
	for _, f := range c.files {
		format := c.format(f.format)
		for i, p := range c.providers(f) {
			name := fileName(f.First+i, len(c.want), c.want[f.First+i].Name)
			data := render(c.document(f, []*yaml.Node{p}), format)
			files = append(files, File{Name: name + "." + string(format), Data: data})
		}
	}
	return files
}

// fileName returns a name that sorts where the provider stands: "10-ecr" for
// the first. The steps leave room for files to come between.
func fileName(index, count int, provider string) string {
	const longest = 128
	safe := []byte(provider)
	for i, b := range safe {
		if !isPlainByte(b) {
			safe[i] = '-'
		}
	}
	return fmt.Sprintf("%0*d-%s", len(fmt.Sprint(10*count)), 10*(index+1), safe[:min(len(safe), longest)])
}

// isPlainByte reports whether a byte may stand in the name of a file on every
// system.
func isPlainByte(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '-' || b == '_' || b == '.'
}

// format returns the format that was asked for, or else f.
func (c *conversion) format(f Format) Format {
	if c.options.Format != "" {
		return c.options.Format
	}
	return f
}

// base returns the name of f without its path.
func (f File) base() string { return filepath.Base(f.Name) }
