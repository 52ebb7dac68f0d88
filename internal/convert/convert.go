// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package convert converts credential provider configurations to
// kubelet.config.k8s.io/v1, and replaces the source files. A source has an older
// version, or is a RegistryCredentialConfig of the out-of-tree proposal.
//
// If only versions change, it edits only versions in the text. Otherwise it writes
// new files, without comments. Each result is loaded again with [config.Parse] or
// [config.ParseDir] and compared with its source:
//
//	res, err := convert.Convert(path, convert.LayoutKeep, convert.Options{})
//	…
//	err = res.Validate(config.Target{}, path)
//	…
//	done, err := convert.Replace(res.Files)
package convert

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/textedit"
	"github.com/regcred/regcred/plugin"
)

// Layout selects the number of result files.
type Layout int

const (
	// LayoutKeep converts each file separately.
	LayoutKeep Layout = iota
	// LayoutSingle puts all providers into one file.
	LayoutSingle
	// LayoutSplit puts each provider into its own file. The lexical order of the file
	// names is the order of the providers.
	LayoutSplit
)

// Format is the syntax of a file.
type Format string

// Supported formats. As in the kubelet, a file that begins with a brace is JSON.
const (
	YAML Format = "yaml"
	JSON Format = "json"
)

// Options selects changes in addition to the version of the files. The zero value makes
// no other changes.
type Options struct {
	// Format is the format of the result. If empty, each file keeps its format. Several
	// files that are merged become JSON only if all of them are JSON.
	Format Format

	// PluginAPIVersion is the exec protocol version for every provider. If empty, each
	// provider keeps its own. Providers of the out-of-tree proposal get [plugin.V1],
	// because no kubelet supports their protocol.
	PluginAPIVersion string

	// HideValues replaces the values of args and env, and drops comments.
	HideValues bool
}

// File is a file of a [Result].
type File struct {
	Name   string // the source file's path if Layout was LayoutKeep, otherwise a base name
	Data   []byte // contains values of args and env, which are secrets
	Source []byte // the previous content if Layout was LayoutKeep
}

// IsChanged reports whether f differs from its source file.
func (f File) IsChanged() bool { return string(f.Data) != string(f.Source) }

// Diff returns a diff of the changes in f; see [textedit.Diff].
func (f File) Diff() string { return textedit.Diff(f.Name, f.Source, f.Data) }

// Format prints only the name of f, because its data is secret.
func (f File) Format(s fmt.State, _ rune) { io.WriteString(s, f.Name) }

// Result is a converted configuration.
type Result struct {
	Source          *config.Config
	Providers       []config.Provider // providers after the conversion, in source order
	Files           []File            // in lexical order
	LostComments    []string          // source files whose comments are in no result file
	SecondDocuments []config.Position // where second YAML documents begin, which the kubelet ignores

	isDir bool // the result is a directory, even with one file
}

// Convert converts the configuration at path. It returns the errors of [config.Load]. For
// files of the out-of-tree proposal, it also returns the errors of
// [config.Config.Validate]. Use [Result.Validate] to find other errors. Convert also fails
// if the result does not have the same providers, which would be a bug in this package.
func Convert(path string, layout Layout, o Options) (*Result, error) {
	src, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	if len(src.Providers) == 0 {
		// The kubelet does not start with a configuration without providers.
		return nil, &config.FieldError{File: path, Path: "providers", Msg: "there are no providers to convert"}
	}
	c := &conversion{options: o, res: &Result{Source: src, Providers: convertProviders(src.Providers, o)}}
	outOfTree := false
	for _, f := range src.Files() {
		s := newSourceFile(f)
		c.files = append(c.files, s)
		outOfTree = outOfTree || f.Kind != config.Kind
		if s.secondDocument > 0 {
			c.res.SecondDocuments = append(c.res.SecondDocuments, config.Position{File: f.Name, Line: s.secondDocument})
		}
	}
	if outOfTree {
		// The out-of-tree proposal rejects some files that the kubelet accepts, such as
		// files that set a variable twice. Converting them would change what they mean.
		if err := src.Validate(); err != nil {
			return nil, err
		}
	}
	c.convertFile(path, layout)
	if err := verifyFiles(c.res.isDir, c.res.Files, c.res.Providers); err != nil {
		return nil, fmt.Errorf("convert %s: %w", path, err)
	}
	return c.res, nil
}

// conversion is a single run of [Convert].
type conversion struct {
	options Options
	files   []*sourceFile
	res     *Result
}

func convertProviders(providers []config.Provider, o Options) []config.Provider {
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
		if o.HideValues {
			hideValues(p)
		}
	}
	return list
}

// hideValues replaces the values of a provider's env and args, except the names of flags.
func hideValues(p *config.Provider) {
	const hidden = "(hidden)"
	p.Args, p.Env = slices.Clone(p.Args), slices.Clone(p.Env)
	for i := range p.Env {
		p.Env[i].Value = plugin.NewSecret(hidden)
	}
	for i, arg := range p.Args {
		name, _, valued := strings.Cut(arg.Reveal(), "=")
		switch {
		case !strings.HasPrefix(name, "--"):
			p.Args[i] = plugin.NewSecret(hidden)
		case valued:
			p.Args[i] = plugin.NewSecret(name + "=" + hidden)
		}
	}
}

func (c *conversion) convertFile(path string, layout Layout) {
	switch {
	case layout == LayoutSplit:
		c.res.isDir = true
		c.splitProviders()
	case layout == LayoutSingle && len(c.files) > 1:
		c.mergeFiles()
	default:
		info, err := os.Stat(path)
		c.res.isDir = layout == LayoutKeep && err == nil && info.IsDir()
		for _, f := range c.files {
			c.convertFile(f)
		}
	}
}

// convertFile converts a file separately, by editing its text if possible. Edits of
// unusual syntax (aliases, escapes, another encoding) can go wrong, so the result is
// checked.
func (c *conversion) convertFile(f *sourceFile) {
	format, want := cmp.Or(c.options.Format, f.format), c.res.Providers[f.First:][:f.Count]
	data, ok := f.editVersions(want)
	if !ok || c.options.HideValues || format != f.format || verifyFiles(false, []File{{Data: data}}, want) != nil {
		data = c.renderProviders(f.First, f.Count, format)
		c.recordLostComments(f)
	}
	c.res.Files = append(c.res.Files, File{f.Name, data, f.File.Data()})
}

func (c *conversion) mergeFiles() {
	format := JSON
	for _, f := range c.files {
		if f.format != JSON {
			format = YAML
		}
		c.recordLostComments(f)
	}
	format = cmp.Or(c.options.Format, format)
	data := c.renderProviders(0, len(c.res.Providers), format)
	c.res.Files = []File{{Name: "converted." + string(format), Data: data}}
}

func (c *conversion) splitProviders() {
	for _, f := range c.files {
		format := cmp.Or(c.options.Format, f.format)
		for i := f.First; i < f.First+f.Count; i++ {
			name := fileName(i, len(c.res.Providers), c.res.Providers[i].Name)
			c.res.Files = append(c.res.Files, File{Name: name + "." + string(format), Data: c.renderProviders(i, 1, format)})
		}
		c.recordLostComments(f)
	}
}

func (c *conversion) recordLostComments(f *sourceFile) {
	if f.hasComments() {
		c.res.LostComments = append(c.res.LostComments, f.Name)
	}
}

// fileName returns the base name of a provider's file, such as "10-ecr" for the first
// provider. The names sort in the order of the providers. The numbers are multiples of ten,
// to leave room for more files.
func fileName(index, count int, provider string) string {
	const longest = 128
	safe := []byte(provider)
	for i, b := range safe {
		if !strings.ContainsRune(fileNameChars, rune(b)) {
			safe[i] = '-'
		}
	}
	return fmt.Sprintf("%0*d-%s", len(fmt.Sprint(10*count)), 10*(index+1), safe[:min(len(safe), longest)])
}

// fileNameChars lists the characters that all systems allow in file names.
const fileNameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

func (f File) baseName() string { return filepath.Base(f.Name) }

// verifyFiles returns an error unless files, loaded again, have the wanted providers.
func verifyFiles(dir bool, files []File, want []config.Provider) error {
	cfg, err := loadFiles("the result", dir, files)
	if err != nil {
		return fmt.Errorf("load the result: %w", err)
	}
	for _, f := range cfg.Files() {
		if f.Kind != config.Kind || f.APIVersion != config.V1 {
			return fmt.Errorf("the converted file is not a %s with apiVersion %s", config.Kind, config.V1)
		}
	}
	if at := firstDifference(want, cfg.Providers); at != "" {
		return fmt.Errorf("the result differs from the source in %s", at)
	}
	return nil
}

// Validate returns the errors of [config.Config.ValidateFor] for the result. Errors show
// path as the directory if the result is a directory, and otherwise as the file.
func (r *Result) Validate(t config.Target, path string) error {
	cfg, err := loadFiles(path, r.isDir, r.Files)
	if err != nil {
		return err
	}
	return cfg.ValidateFor(t)
}

// loadFiles loads files as the kubelet would from path, which is a directory or a file.
func loadFiles(path string, dir bool, files []File) (*config.Config, error) {
	if !dir {
		return config.Parse(path, files[0].Data)
	}
	byName := map[string][]byte{}
	for _, f := range files {
		byName[f.baseName()] = f.Data
	}
	return config.ParseDir(path, byName)
}

// firstDifference describes the first provider that differs between two lists, or
// returns "". It shows no values.
func firstDifference(want, got []config.Provider) string {
	if len(want) != len(got) {
		return fmt.Sprintf("the number of providers (%d instead of %d)", len(got), len(want))
	}
	for i := range want {
		if !want[i].Equal(&got[i]) {
			return fmt.Sprintf("providers[%d]", i)
		}
	}
	return ""
}
