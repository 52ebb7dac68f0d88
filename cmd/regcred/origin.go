// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/plugin"
)

// localNode returns this machine. If an environment variable is set and no flag is, its errors
// mention the variables instead of the flags. They also do so for the credential helper, which has
// no flags.
func (a *app) localNode() node.Node {
	n := node.Node{Root: a.root}
	if !a.config.isSetByFlag() && !a.binDir.isSetByFlag() && (a.forHelper || a.config.value+a.binDir.value != "") {
		n.ConfigSetting, n.BinDirSetting = a.config.variable, a.binDir.variable
	}
	return n
}

// resolveOrigin finds the configuration. path is the command's PATH argument. If path is empty, the
// flags select the configuration.
func (a *app) resolveOrigin(ctx context.Context, path string, needBinDir bool) (*node.Origin, error) {
	return a.findOrigin(ctx, a.localNode().NewReader(), node.FindOptions{Config: path, NeedBinDir: needBinDir})
}

// findOrigin finds the configuration from w.Config, the flags, a running kubelet
// (--as-kubelet) or the well-known paths of a node. Without w.NeedBinDir, it does not
// search for a missing plugin directory.
func (a *app) findOrigin(ctx context.Context, n *node.Reader, w node.FindOptions) (_ *node.Origin, err error) {
	if err := a.setCaller(&w); err != nil {
		return nil, err
	}
	path := w.Config
	if path == "" {
		w.Config = a.config.value
	} else if a.config.isSetByFlag() && a.config.value != path {
		return nil, usageError("", "PATH is %q, but %s is set to %q", excerpt.RedactAddress(path), a.config.source, a.config.value)
	}
	if a.binDir.value != "" {
		// Plugins may run in a different working directory, so relative paths must be made
		// absolute.
		if w.BinDir, err = filepath.Abs(a.binDir.value); err != nil {
			return nil, err
		}
	}
	w.RootDir = a.rootDir
	o, err := n.Find(ctx, w)
	if err != nil {
		return nil, err
	}
	if o.Unit != "" {
		a.Note("no kubelet is running: using the flags and environment from %s", o.Unit)
	}
	if len(o.DiscoveredFlags) > 0 {
		a.Note("using %s: %s", o.From, strings.Join(o.DiscoveredFlags, " "))
		if len(o.UnreadablePaths) > 0 {
			a.Note("this user cannot read %s: root might find a different configuration", strings.Join(o.UnreadablePaths, ", "))
		}
	}
	o.From = a.appendVariableNames(o.From, path)
	o.Target = a.target
	return o, nil
}

// appendVariableNames appends the names of the environment variables that set a value
// to from, because users may not be aware of them.
func (a *app) appendVariableNames(from, path string) string {
	const flags = "flags"
	var names []string
	if a.config.value != "" && !a.config.isSetByFlag() && path == "" {
		names = append(names, a.config.variable)
	}
	if a.binDir.value != "" && !a.binDir.isSetByFlag() {
		names = append(names, a.binDir.variable)
	}
	switch all := strings.Join(names, " and "); {
	case len(names) == 0:
		return from
	case from == flags && !a.config.isSetByFlag() && !a.binDir.isSetByFlag() && path == "":
		return all
	default:
		return from + " and " + all
	}
}

// pluginEnvironment returns the environment for a plugin that is run without a configuration.
func (a *app) pluginEnvironment(ctx context.Context) (*node.Origin, error) {
	var w node.FindOptions
	if err := a.setCaller(&w); err != nil {
		return nil, err
	}
	return a.localNode().NewReader().FindEnvironment(ctx, w)
}

// setCaller sets --as-kubelet and the caller's environment in w. It returns an error for an invalid
// --plugin-timeout.
func (a *app) setCaller(w *node.FindOptions) error {
	if a.timeout <= 0 {
		return usageError("", "--plugin-timeout is %v; it must be positive", a.timeout)
	}
	w.AsKubelet, w.Environ, w.Dir = a.asKubelet, a.environ, a.dir
	return nil
}

// loadValidConfig loads and validates the configuration, like [node.Origin.Load]. If
// NoProviders is set, it prints a note and returns a configuration without providers.
func (a *app) loadValidConfig(ctx context.Context, o *node.Origin) (*config.Config, error) {
	if o.NoProviders != nil {
		a.Note("%s; %s", o.NoProviders.Message, o.NoProviders.Fix)
		return &config.Config{}, nil
	}
	cfg, err := o.Load(ctx)
	if errors.Is(err, fs.ErrNotExist) && a.config.source == a.config.variable && o.Config == a.config.value {
		err = fmt.Errorf("%s: %w", a.config.source, err) // the user may not be aware of the variable
	}
	return cfg, err
}

// resolveAndLoad finds, loads and validates the configuration.
func (a *app) resolveAndLoad(ctx context.Context, path string, needBinDir bool) (*config.Config, *node.Origin, error) {
	o, err := a.resolveOrigin(ctx, path, needBinDir)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := a.loadValidConfig(ctx, o)
	return cfg, o, err
}

// loadProvider is like resolveAndLoad, but also finds a provider by name.
func (a *app) loadProvider(ctx context.Context, name string) (cfg *config.Config, o *node.Origin, index int, err error) {
	if cfg, o, err = a.resolveAndLoad(ctx, "", true); err != nil {
		return nil, nil, 0, err
	}
	if index = slices.Index(doctor.ProviderNames(cfg), name); index < 0 {
		err = withHint(fmt.Errorf("no provider %q in %s", name, o.Config), "it has: "+strings.Join(doctor.ProviderNames(cfg), ", "))
	}
	return cfg, o, index, err
}

func environmentText(env string) string {
	if env == "caller" {
		return "from this shell; --as-kubelet uses the kubelet's environment"
	}
	if unit, ok := strings.CutPrefix(env, "unit "); ok {
		return "that which " + unit + " gives the next kubelet"
	}
	return "that of " + strings.Replace(env, "pid", "process", 1)
}

// pluginCommand returns the command that runs a provider's plugin.
func (a *app) pluginCommand(cfg *config.Config, provider int, o *node.Origin) plugin.Command {
	c := cfg.Command(provider, o.BinDir)
	c.Environ, c.Dir, c.Timeout = o.Environ, o.Dir, a.timeout
	return c
}

// selectAnnotations returns the given annotations that t lists. It prints notes about required
// annotations that are missing and about annotations that are not listed.
func (a *app) selectAnnotations(t *config.TokenAttributes, token plugin.Secret, given map[string]string) map[string]string {
	selected := map[string]string{}
	required := t.RequiredServiceAccountAnnotationKeys
	for i, key := range slices.Concat(required, t.OptionalServiceAccountAnnotationKeys) {
		if value, ok := given[key]; ok {
			selected[key] = value
		} else if i < len(required) && !token.IsZero() {
			a.Note("the kubelet would not run this provider without the annotation %s: use --annotation %s=…", key, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if _, ok := selected[key]; !ok {
			a.Note("annotation %s is not sent to the plugin, because the configuration does not list it", key)
		}
	}
	return selected
}

// hostProgram returns the name of the program that runs a provider's plugin.
func hostProgram(p *config.Provider) string {
	if p.APIVersion == plugin.OutOfTree {
		return "regcred"
	}
	return "the kubelet"
}

func argCountText(n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprintf("%d (values not shown)", n)
}
