// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package install

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/convert"
	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/lint"
)

// DesiredState describes the desired state of a node. Its paths are paths on this machine.
type DesiredState struct {
	Config     string   // path of a file or directory; "" keeps the current generation's configuration
	Plugins    []string // paths of executables; the base name is the provider's name
	BinDir     string   // directory of executables that Plugins does not list; may be ""
	Dispatcher string   // path of the dispatcher's executable

	Owner string // Helm release NAMESPACE/RELEASE; "" if installed manually

	MaxStale time.Duration // how long a kubelet may cache a response; 0 keeps the current setting, which is 5 minutes by default
	Reserve  []string      // additional image patterns for the kubelet's entries; nil keeps the current patterns
	AnyImage *bool         // whether the entries match every image; nil keeps the current setting

	// Reapplied allows an install on a node that reverts changes. Another program, such as the
	// chart's pod, must then repeat the install each time.
	Reapplied bool

	// SkipExec disables the test runs of the executables, because they are built for another
	// machine.
	SkipExec bool

	testCopies bool // the executables are tested from their copies in the new generation
}

// gatherFiles loads and validates the configuration. It returns the configuration and all files
// to install.
func (in *Installer) gatherFiles(ctx context.Context, d DesiredState, from *generation.Manifest) (cfg *config.Config, list []generation.SourceFile, err error) {
	if d.Config == "" {
		if from == nil {
			return nil, nil, withHint("regcred install CONFIG", "nothing to install: specify a configuration, because this node has no current configuration")
		}
		d.Config = in.hostPath(in.Store.GenerationPath(from.Number, generation.ConfigFilePath("")))
	}
	if cfg, err = config.Load(d.Config); err == nil {
		cfg, err = in.removeOwnEntries(ctx, cfg)
	}
	if err != nil {
		return nil, nil, err
	}
	switch err := validateFiles(cfg, in.Setup.Target()); {
	case err == nil:
	case !isEmptyList(cfg, err):
		return nil, nil, in.withKubeletVersion(err)
	case !hasEntries(from):
		return nil, nil, withHint("add a provider to the configuration; a later install may remove it", "the first configuration on a node needs a provider, because the kubelet does not start without one: %w", err)
	}
	for _, f := range cfg.Files() {
		list = append(list, generation.SourceFileFromBytes(generation.ConfigFilePath(configFileName(f.Name)), 0o600, f.Data()))
	}
	add := func(name, file string) error {
		c, err := generation.SourceFileFromPath(ctx, name, 0o755, file)
		list = append(list, c)
		return err
	}
	for i := range cfg.Providers {
		name := cfg.Providers[i].Name
		file, err := in.findExecutable(name, d, from)
		if err == nil {
			err = add(generation.ExecutablePath(name), file)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if err := checkPlugins(cfg, d.Plugins); err != nil {
		return nil, nil, err
	}
	if err := add(generation.DispatcherName, d.Dispatcher); err != nil {
		return nil, nil, err
	}
	return cfg, list, checkNotDispatcher(list)
}

// removeOwnEntries returns a configuration without regcred's entries. They are in the kubelet's
// own file, which a user may install again.
func (in *Installer) removeOwnEntries(ctx context.Context, cfg *config.Config) (*config.Config, error) {
	files := map[string][]byte{}
	removed := false
	for _, f := range cfg.Files() {
		own, err := in.ownEntryNames(ctx, f.Data())
		if err != nil {
			return nil, err
		}
		left := f.Data()
		if slices.ContainsFunc(cfg.Providers[f.First:f.First+f.Count], func(p config.Provider) bool { return slices.Contains(own, p.Name) }) {
			removed = true
			if left, err = entries.SetEntries(f.Name, left, nil, own); err != nil {
				return nil, err
			}
		}
		if left != nil {
			files[filepath.Base(f.Name)] = left
		}
	}
	if !removed {
		return cfg, nil
	}
	name, dir := cfg.Path()
	if dir {
		return config.ParseDir(name, files)
	}
	return config.Parse(name, files[filepath.Base(name)])
}

// checkNotDispatcher returns an error if a provider's executable is a link to the dispatcher, as
// in the kubelet's bin dir, or a copy of it. The dispatcher would call itself.
func checkNotDispatcher(list []generation.SourceFile) error {
	for _, f := range list {
		real, err := filepath.EvalSymlinks(f.From)
		switch {
		case f.Name == generation.DispatcherName:
		case err == nil && filepath.Base(real) == generation.DispatcherName, isDispatcherProgram(f.From):
			return fmt.Errorf("%s is regcred's dispatcher, which cannot be the executable of a provider", f.From)
		}
	}
	return nil
}

// isDispatcherProgram reports whether an executable is a build of the dispatcher of any version.
func isDispatcherProgram(name string) bool {
	info, err := buildinfo.ReadFile(name)
	return err == nil && strings.HasPrefix(info.Path, "github.com/regcred/regcred/") && path.Base(info.Path) == generation.DispatcherName
}

// withKubeletVersion wraps an error of validateFiles. The new error states whether the
// kubelet's version is known.
func (in *Installer) withKubeletVersion(err error) error {
	if v := in.Setup.Version; v.Kubelet == "" && v.Why != "" {
		return withHint("--kubelet-version sets the node's kubelet version", "kubelet %s would not start with this configuration, and this node's kubelet version is unknown (%s): %w", config.NewestKubelet, v.Why, err)
	}
	return fmt.Errorf("this node's kubelet would not start with this configuration: %w", err)
}

// validateFiles validates each configuration file separately. The dispatcher reads a
// configuration directory even if the kubelet's version does not support directories.
func validateFiles(cfg *config.Config, t config.Target) error {
	if len(cfg.Providers) == 0 {
		return cfg.ValidateFor(t)
	}
	var bad []error
	for _, f := range cfg.Files() {
		if f.Count == 0 {
			continue
		}
		one, err := config.Parse(f.Name, f.Data())
		if err == nil {
			err = one.ValidateFor(t)
		}
		bad = append(bad, err)
	}
	return errors.Join(bad...)
}

// hasEntries reports whether the kubelet has entries that it keeps while there is no provider.
func hasEntries(from *generation.Manifest) bool { return from != nil && len(from.Entries) > 0 }

// isEmptyList reports whether err is only that the configuration has no provider, and it says so
// explicitly, with "providers: []". The dispatcher then responds without credentials.
func isEmptyList(cfg *config.Config, err error) bool {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(cfg.Providers) > 0 || len(cfg.Files()) == 0 {
		return false
	}
	for _, err := range joined.Unwrap() {
		if e, ok := errors.AsType[*config.FieldError](err); !ok || e.Path != "providers" {
			return false
		}
	}
	return !slices.ContainsFunc(cfg.Files(), func(f *config.File) bool {
		var doc struct {
			Providers []any `json:"providers"`
		}
		return yaml.Unmarshal(f.Data(), &doc) != nil || doc.Providers == nil
	})
}

// hostPath converts a path on the node to a path on this machine. It resolves symlinks within
// the node's root directory.
func (in *Installer) hostPath(name string) string {
	if real, err := in.fs().EvalSymlinks(name); err == nil {
		name = real
	}
	return in.fs().HostPath(name)
}

// configFileName returns the base name of a file, with an extension that the kubelet reads in a
// configuration directory.
func configFileName(name string) string {
	base := filepath.Base(name)
	if ext := filepath.Ext(base); ext == ".json" || ext == ".yaml" || ext == ".yml" {
		return base
	}
	return base + ".yaml" // JSON is YAML
}

// findExecutable returns the path of a provider's executable. It looks in d.Plugins, then in
// d.BinDir, then in the current generation.
func (in *Installer) findExecutable(name string, d DesiredState, from *generation.Manifest) (string, error) {
	if i := slices.IndexFunc(d.Plugins, func(p string) bool { return filepath.Base(p) == name }); i >= 0 {
		return d.Plugins[i], nil
	}
	places := []string{}
	if d.BinDir != "" {
		places = append(places, filepath.Join(d.BinDir, name))
	}
	if from != nil {
		places = append(places, in.hostPath(in.Store.GenerationPath(from.Number, generation.ExecutablePath(name))))
	}
	for _, p := range places {
		if _, err := os.Stat(p); err == nil {
			return p, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", withHint("--plugin PATH/"+name, "no executable found for provider %q: none was specified%s", name, strings.Join(append([]string{""}, places...), ", none is at "))
}

// checkPlugins returns an error if an executable in plugins has no provider, or if a provider
// has two executables.
func checkPlugins(cfg *config.Config, plugins []string) error {
	for i, p := range plugins {
		if slices.ContainsFunc(plugins[:i], func(o string) bool { return filepath.Base(o) == filepath.Base(p) && o != p }) {
			return fmt.Errorf("%s: another executable was given for provider %q", p, filepath.Base(p))
		}
		if !slices.ContainsFunc(cfg.Providers, func(q config.Provider) bool { return q.Name == filepath.Base(p) }) {
			return fmt.Errorf("%s: the configuration has no provider %q (an executable must have its provider's name)", p, filepath.Base(p))
		}
	}
	return nil
}

// checkFiles lints the configuration and checks each executable that is new or changed. It
// returns warnings, and the errors that were found as one error.
func (in *Installer) checkFiles(ctx context.Context, d DesiredState, cfg *config.Config, list []generation.SourceFile, from *generation.Manifest) (warnings []string, err error) {
	var bad []error
	found := lint.Check(cfg)
	for _, s := range list {
		if path.Dir(s.Name) != path.Dir(generation.ExecutablePath("x")) && s.Name != generation.DispatcherName || isUnchanged(s, from) {
			continue
		}
		found = append(found, in.checkExecutable(ctx, d, cfg, s)...)
	}
	for _, f := range found {
		switch f.Severity {
		case finding.SeverityError:
			bad = append(bad, errors.New(f.String()))
		case finding.SeverityWarning:
			warnings = append(warnings, f.String())
		}
	}
	return warnings, errors.Join(bad...)
}

// isUnchanged reports whether generation from contains a file with the same name, mode and
// content.
func isUnchanged(s generation.SourceFile, from *generation.Manifest) bool {
	return from != nil && slices.Contains(from.Files, s.File)
}

func (in *Installer) checkExecutable(ctx context.Context, d DesiredState, cfg *config.Config, s generation.SourceFile) (list []finding.Finding) {
	for _, f := range lint.Binary(s.From) {
		if f.Severity == finding.SeverityError && d.SkipExec {
			f.Severity = finding.SeverityWarning
		}
		list = append(list, f)
	}
	list = slices.DeleteFunc(list, func(f finding.Finding) bool { return f.Severity == finding.SeverityInfo })
	i := slices.IndexFunc(cfg.Providers, func(p config.Provider) bool { return generation.ExecutablePath(p.Name) == s.Name })
	if d.SkipExec || d.testCopies || i < 0 || len(list) > 0 {
		return append(list, lostPrivileges(s.From)...)
	}
	return append(in.tryPlugin(ctx, cfg, i, s.From), lostPrivileges(s.From)...)
}

// UseDefaultConfig sets d.Config to regcred's default configuration, if it exists. It does nothing
// if d already has a configuration or a generation is current.
func (in *Installer) UseDefaultConfig(d *DesiredState) {
	if d.Config != "" || in.fs().Exists(in.Store.Path("current")) {
		return
	}
	if in.fs().Exists(node.DefaultConfig) {
		d.Config = in.hostPath(node.DefaultConfig)
		d.BinDir = cmp.Or(d.BinDir, in.hostPath(node.DefaultBinDir))
	}
}

// NewManualConfig converts a configuration file or directory to a single file, for the
// instructions for a manual change. If hidden is true, it omits the values of args and env.
func NewManualConfig(path string, hidden bool) (node.DesiredConfig, error) {
	options := convert.Options{HideValues: hidden}
	if hidden {
		options.Format = convert.YAML
	}
	whole, err := convert.Convert(path, convert.LayoutSingle, options)
	if err != nil {
		return node.DesiredConfig{}, err
	}
	w := node.DesiredConfig{ConfigPath: "/etc/kubernetes/credential-providers.yaml", BinDir: "/usr/local/bin", Config: string(whole.Files[0].Data)}
	for i := range whole.Providers {
		p := &whole.Providers[i]
		q := node.DesiredProvider{Name: p.Name, MatchImages: p.MatchImages, Args: p.Arguments(), Env: map[string]string{}, Tokens: p.TokenAttributes != nil}
		if p.DefaultCacheDuration != nil {
			q.CacheDuration = p.DefaultCacheDuration.String()
		}
		for _, v := range p.Env {
			q.Env[v.Name] = v.Value.Reveal()
		}
		w.Providers = append(w.Providers, q)
	}
	return w, nil
}
