// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package convert turns credential provider configurations of older versions,
// and those of the predecessor (Out-of-Tree Credential Providers), into
// kubelet.config.k8s.io/v1, and puts them in place of their source.
//
// Where versions are all that changes, they are all that changes in the text.
// Everything else is written anew, without comments. What a file says is decided
// by [config.Load] alone; a result is loaded anew and compared with its source
// before anybody sees it:
//
//	res, err := convert.Convert(path, convert.Keep, convert.Options{})
//	…
//	err = res.Validate(config.Target{}, path)
//	…
//	done, err := convert.Replace(res.Files)
package convert

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/textedit"
	"github.com/regcred/regcred/plugin"
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

// Diff returns a diff of what changes in f; see [textedit.Diff].
func (f File) Diff() string { return textedit.Diff(f.Name, f.Source, f.Data) }

// Format writes the name of f, whatever the verb: its data is secret.
func (f File) Format(s fmt.State, _ rune) { io.WriteString(s, f.Name) }

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
	Lost      []string          // source files whose comments are in none of the Files
	Cut       []Place           // where a second YAML document begins, which kubelets ignore

	dir bool // the Files are a directory, however many they are
}

// Convert converts the configuration at path. It returns the errors of
// [config.Load] and, if there are files of the predecessor, those of
// [config.Config.Validate]; others are left to [Result.Validate]. A result
// that does not have the same providers, loaded anew, is an error too, and a
// defect of this package.
func Convert(path string, layout Layout, o Options) (*Result, error) {
	src, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	if len(src.Providers) == 0 {
		// No kubelet starts with it, whatever the version.
		return nil, &config.FieldError{File: path, Path: "providers", Msg: "there are no providers to convert"}
	}
	c := &conversion{options: o, res: &Result{Source: src, Providers: wanted(src.Providers, o)}}
	former := false
	for _, f := range src.Files() {
		s := newSource(f)
		c.files = append(c.files, s)
		former = former || f.Kind != config.Kind
		if s.secondDocument > 0 {
			c.res.Cut = append(c.res.Cut, Place{f.Name, s.secondDocument})
		}
	}
	if former {
		// The predecessor refuses what a kubelet takes, such as a variable that is
		// set twice. What would become of that, its author did not mean.
		if err := src.Validate(); err != nil {
			return nil, err
		}
	}
	c.convert(path, layout)
	if err := check(c.res.dir, c.res.Files, c.res.Providers); err != nil {
		return nil, fmt.Errorf("convert %s: %w", path, err)
	}
	return c.res, nil
}

// conversion is one run of [Convert].
type conversion struct {
	options Options
	files   []*source
	res     *Result
}

// wanted returns what the providers are to be after the conversion.
func wanted(providers []config.Provider, o Options) []config.Provider {
	list := slices.Clone(providers)
	for i := range list {
		p := &list[i]
		if p.APIVersion == plugin.OutOfTree {
			p.APIVersion = plugin.V1
			p.Args = append([]plugin.Secret{plugin.NewSecret("get-credentials")}, p.Args...)
		}
		if o.PluginAPIVersion != "" {
			p.APIVersion = o.PluginAPIVersion
		}
	}
	return list
}

// convert makes the files.
func (c *conversion) convert(path string, layout Layout) {
	switch {
	case layout == Split:
		c.res.dir = true
		c.split()
	case layout == Single && len(c.files) > 1:
		c.merge()
	default:
		info, err := os.Stat(path)
		c.res.dir = layout == Keep && err == nil && info.IsDir()
		for _, f := range c.files {
			c.keep(f)
		}
	}
}

// keep converts a file on its own, by editing its text if that is enough. An
// edit may go wrong where the text is unusual (aliases, escapes, another
// encoding): it counts if it has the wanted effect.
func (c *conversion) keep(f *source) {
	format, want := c.format(f.format), c.res.Providers[f.First:][:f.Count]
	data, ok := f.edit(want)
	if !ok || format != f.format || check(false, []File{{Data: data}}, want) != nil {
		data = c.render(f.First, f.Count, format)
		c.lose(f)
	}
	c.res.Files = append(c.res.Files, File{f.Name, data, f.File.Data()})
}

// merge puts all providers into one file.
func (c *conversion) merge() {
	format := JSON
	for _, f := range c.files {
		if f.format != JSON {
			format = YAML
		}
		c.lose(f)
	}
	format = c.format(format)
	data := c.render(0, len(c.res.Providers), format)
	c.res.Files = []File{{Name: "converted." + string(format), Data: data}}
}

// split puts each provider into a file of its own.
func (c *conversion) split() {
	for _, f := range c.files {
		format := c.format(f.format)
		for i := f.First; i < f.First+f.Count; i++ {
			name := fileName(i, len(c.res.Providers), c.res.Providers[i].Name)
			c.res.Files = append(c.res.Files, File{Name: name + "." + string(format), Data: c.render(i, 1, format)})
		}
		c.lose(f)
	}
}

// lose notes that the comments of a file are lost, if it has any.
func (c *conversion) lose(f *source) {
	if f.hasComments() {
		c.res.Lost = append(c.res.Lost, f.Name)
	}
}

// render writes some of the providers as one file.
func (c *conversion) render(first, count int, format Format) []byte {
	doc := document{APIVersion: config.V1, Kind: config.Kind, Providers: []entry{}}
	for i := first; i < first+count; i++ {
		doc.Providers = append(doc.Providers, newEntry(c.res.Providers[i], c.res.Source.Providers[i].APIVersion == plugin.OutOfTree))
	}
	return doc.render(format)
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
