// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/plugintest"
)

// pluginTestFlags holds the flags of "regcred plugin test".
type pluginTestFlags struct {
	output     *enumFlag
	args       []string
	env        []string
	apiVersion *enumFlag
	images     []string
	identityFlags
	cacheType             *enumFlag
	requireServiceAccount bool
	checks                []string
	list                  bool
	strict                bool
}

func (f *pluginTestFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.images, "image", nil,
		"an `image` that the plugin has credentials for; may be repeated; add a second image from the same registry and a third image from another registry to run more checks (default "+plugintest.DefaultImage+")")
	flags.Func("arg", "an `argument` for the plugin; may be repeated", func(v string) error { f.args = append(f.args, v); return nil })
	flags.Func("args", "several `arguments`, separated by spaces; may be repeated",
		func(v string) error { f.args = append(f.args, strings.Fields(v)...); return nil })
	flags.StringArrayVar(&f.env, "env", nil,
		"environment variable `NAME=value` to set in every run of the plugin; NAME without a value uses the current environment's value; may be repeated")
	versions := []string{plugin.V1, plugin.V1Beta1, plugin.V1Alpha1, plugin.OutOfTree}
	f.apiVersion = addEnumFlag(cmd, "api-version", "", "protocol `version` to use, as in a configuration: "+strings.Join(versions, " | ")+
		"; the last one is the RegistryCredentialConfig protocol (default: the first of the other versions that the plugin supports)", "", versions...)
	f.identityFlags.register(cmd)
	f.cacheType = addEnumFlag(cmd, "cache-type", "", "the `cacheType` in tokenAttributes that the plugin is designed for: ServiceAccount | Token", "",
		string(config.CachePerServiceAccount), string(config.CachePerToken))
	flags.BoolVar(&f.requireServiceAccount, "require-service-account", false, "test with requireServiceAccount: true in tokenAttributes")
	flags.StringSliceVar(&f.checks, "check", nil, "run only the check with this `id`; may be repeated")
	flags.BoolVar(&f.list, "list", false, "list the checks without running them")
	flags.BoolVar(&f.strict, "strict", false, "fail on warnings too")
	registerFlagCompletion(cmd, "check", checkIDs())
}

func checkIDs() []string {
	var ids []string
	for _, c := range plugintest.Checks() {
		ids = append(ids, c.ID)
	}
	return ids
}

// testSubject is a plugin under test and the options for its tests.
type testSubject struct {
	command     plugin.Command
	options     plugintest.Options
	provider    string // name in the configuration; "" for an executable without one
	environment string // "caller" or "kubelet pid N"
}

// newTestSubject finds the plugin and its settings. Flags override the configuration.
func (a *app) newTestSubject(ctx context.Context, f *pluginTestFlags, path string) (*testSubject, error) {
	identity, err := f.serviceAccount(ctx)
	if err != nil {
		return nil, err
	}
	env, err := a.expandTestEnv(f.env)
	if err != nil {
		return nil, err
	}
	s := &testSubject{options: plugintest.Options{ServiceAccount: identity}}
	cfg := &config.Config{}
	switch {
	case !isBareName(path) && (a.config.isSetByFlag() || a.binDir.isSetByFlag()):
		return nil, usageError("use the provider's name to test it as configured, or omit --config and --bin-dir",
			"PATH %q is a file: --config and --bin-dir do not apply", path)
	case isBareName(path) && (a.config.value != "" || a.asKubelet != ""):
		cfg, err = a.configureFromProvider(ctx, s, path)
	default:
		err = a.configureFromExecutable(ctx, s, path)
	}
	if err != nil {
		return nil, err
	}
	if f.apiVersion.value != "" {
		s.command.APIVersion = f.apiVersion.value
	}
	if s.command.APIVersion == plugin.OutOfTree && s.options.ServiceAccount != nil {
		return nil, usageError("omit the service account flags, or --api-version", "protocol %s does not support service accounts", plugin.OutOfTree)
	}
	s.command.Args = append(s.command.Args, plugin.NewSecrets(f.args...)...)
	s.command.Env = append(s.command.Env, plugin.NewSecrets(env...)...)
	if s.options.Images, err = a.normalizeTestImages(cfg, s.provider, f.images); err != nil {
		return nil, err
	}
	return s, checkExecutable(s.command.Path)
}

// isBareName reports whether path is a file name without a directory.
func isBareName(path string) bool { return filepath.Base(path) == path }

// configureFromProvider sets the command and options from a provider in the configuration.
func (a *app) configureFromProvider(ctx context.Context, s *testSubject, name string) (*config.Config, error) {
	cfg, o, i, err := a.loadProvider(ctx, name)
	if err != nil {
		return nil, err
	}
	p := &cfg.Providers[i]
	s.provider, s.environment, s.command = name, o.Environment(), a.pluginCommand(cfg, i, o)
	return cfg, a.configureServiceAccount(s, p)
}

// configureServiceAccount sets the service account from the configuration's token
// attributes and the flags.
func (a *app) configureServiceAccount(s *testSubject, p *config.Provider) error {
	t, given := p.TokenAttributes, s.options.ServiceAccount
	switch {
	case t == nil && given != nil:
		return usageError("omit --service-account-token-file, --annotation, --cache-type and --require-service-account",
			"provider %q has no tokenAttributes, so %s does not pass it a service account", p.Name, hostProgram(p))
	case t == nil:
		return nil
	case given == nil:
		given = &plugintest.ServiceAccount{}
	case given.CacheType != "" && given.CacheType != t.CacheType:
		return usageError("omit --cache-type", "--cache-type is %s, but provider %q has cacheType: %s", given.CacheType, p.Name, t.CacheType)
	}
	s.options.ServiceAccount = &plugintest.ServiceAccount{
		Token:       given.Token,
		Audience:    t.ServiceAccountTokenAudience,
		Annotations: a.selectAnnotations(t, given.Token, given.Annotations),
		CacheType:   t.CacheType,
		Required:    given.Required || *t.RequireServiceAccount,
	}
	return nil
}

// configureFromExecutable sets the command for an executable that is not in a configuration.
func (a *app) configureFromExecutable(ctx context.Context, s *testSubject, path string) error {
	o, err := a.pluginEnvironment(ctx)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(path) {
		binDir := ""
		if isBareName(path) {
			binDir = a.binDir.value
		}
		abs, err := filepath.Abs(filepath.Join(binDir, path))
		if err != nil {
			return err
		}
		path = abs
	}
	s.environment = o.Environment()
	s.command = plugin.Command{Path: path, Environ: o.Environ, Dir: o.Dir, Timeout: a.timeout}
	return nil
}

// checkExecutable returns an error if path cannot be executed, before any check runs.
func checkExecutable(path string) error {
	_, err := exec.LookPath(path)
	if err == nil {
		return nil
	}
	hint := ""
	switch {
	case errors.Is(err, fs.ErrPermission):
		hint = "make it executable: chmod +x " + terminal.QuoteShellWord(path)
	case errors.Is(err, fs.ErrNotExist):
		hint = "PATH must be an existing file or, with --bin-dir, --config or --as-kubelet, the name of a provider whose executable exists"
	}
	// Drop the path from the error, because the message below already contains it.
	if e, ok := errors.AsType[*exec.Error](err); ok {
		err = e.Err
	}
	return withHint(fmt.Errorf("plugin %s: %w", path, regularfile.BareError(err)), hint)
}

// serviceAccount returns the identity from the flags, or nil if none is set.
func (f *pluginTestFlags) serviceAccount(ctx context.Context) (*plugintest.ServiceAccount, error) {
	token, annotations, err := f.readIdentity(ctx)
	if err != nil {
		return nil, err
	}
	if token.IsZero() && len(annotations) == 0 && f.cacheType.value == "" && !f.requireServiceAccount {
		return nil, nil
	}
	return &plugintest.ServiceAccount{
		Token:       token,
		Annotations: annotations,
		CacheType:   config.TokenCacheType(f.cacheType.value),
		Required:    f.requireServiceAccount,
	}, nil
}

// expandTestEnv completes each NAME with its value from the environment, so that
// secrets need not be on the command line.
func (a *app) expandTestEnv(list []string) ([]string, error) {
	var env []string
	for _, entry := range list {
		name, _, hasValue := strings.Cut(entry, "=")
		if name == "" {
			return nil, usageError("", "--env must be NAME=value or NAME")
		}
		if !hasValue {
			i := slices.IndexFunc(a.environ, func(e string) bool { return strings.HasPrefix(e, name+"=") })
			if i < 0 {
				return nil, usageError("set a value with --env "+name+"=…", "--env %s: the variable is not set", name)
			}
			entry = a.environ[i]
		}
		env = append(env, entry)
	}
	return env, nil
}

// normalizeTestImages normalizes images as the kubelet does. It prints the images for
// which the kubelet would not call the provider.
func (a *app) normalizeTestImages(cfg *config.Config, provider string, images []string) ([]string, error) {
	if len(images) == 0 {
		images = []string{plugintest.DefaultImage}
	}
	var list []string
	for _, image := range images {
		e := regcred.Explain(cfg, regcred.Request{Image: image})
		if e.Error != "" {
			return nil, withHint(fmt.Errorf("--image: %s", e.Error), imageSyntaxHint)
		}
		for i, p := range e.Providers {
			if p.Name == provider && !p.Matched {
				a.Note("%s would not run %s for %s: set --image to an image that the provider serves", hostProgram(&cfg.Providers[i]), provider, e.Repository)
			}
		}
		list = append(list, e.Repository)
	}
	return list, nil
}
