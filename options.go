// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/plugin"
)

// Options configures a [Keyring]. BinDir is required unless every provider is in
// InProcess. All other fields are optional.
type Options struct {
	// BinDir is the directory of the plugin executables. PATH is not searched.
	BinDir string

	// Environ is the environment that plugins inherit, as "key=value". The
	// configuration's env is added to it. nil means the current environment.
	Environ []string

	// Dir is the working directory of plugins; "" means the current directory.
	Dir string

	// Timeout limits each plugin run, each access to a service account and each
	// read of a source; 0 means one minute.
	Timeout time.Duration

	// MaxOutput limits a plugin's standard output in bytes; 0 means 1 MiB.
	MaxOutput int

	// Grace is the time between SIGTERM and SIGKILL when a plugin is stopped. 0 means
	// SIGKILL immediately, as in the kubelet. Windows has no SIGTERM.
	Grace time.Duration

	// Sources are queried after the request's pull secrets and before the plugins. The
	// kubelet has one source, the node's docker config files: see [NodeDockerConfig].
	Sources []Source

	// ServiceAccounts is used for providers with tokenAttributes. If it is nil,
	// such a provider fails for pods with a service account, unless the request
	// has a Token.
	ServiceAccounts ServiceAccountClient

	// InProcess maps names to Go providers that are called instead of the executable with that
	// name. They have the same timeout, cache and checks as executables. [New] returns an error
	// if the configuration lacks one of the names.
	InProcess map[string]plugin.Provider

	// Observer, if not nil, is called for each exec, cache and failure event, from
	// several goroutines. Lookups wait for it, so it must not block, panic or call
	// Close.
	Observer func(Event)

	// Logger gets the same events at level Debug; nil discards them. Lookups wait
	// for its handler.
	Logger *slog.Logger

	// MaxCacheEntries limits the cache of each provider; 0 means 100,000.
	MaxCacheEntries int

	// RefreshAhead, if positive, enables background refreshes. If a lookup uses a cached
	// response that expires within RefreshAhead, the plugin is run in the background. The
	// period is at most a quarter of the response's lifetime, and up to a tenth of it is
	// subtracted at random. There are no refreshes in service-account mode.
	RefreshAhead time.Duration

	// Backoff, if positive, is the maximum delay before a plugin that failed for an image runs
	// again for that image. The delay starts at one second, doubles with each failure, and has
	// jitter. There is no backoff in service-account mode.
	Backoff time.Duration
}

// withDefaults returns a copy of o with defaults for the limits that are not set.
func (o Options) withDefaults() Options {
	if o.Timeout <= 0 {
		o.Timeout = protocol.KubeletTimeout
	}
	if o.MaxCacheEntries <= 0 {
		o.MaxCacheEntries = 100_000
	}
	o.InProcess, o.Sources, o.Environ = maps.Clone(o.InProcess), slices.Clone(o.Sources), slices.Clone(o.Environ)
	return o
}

func (o *Options) validate(c *config.Config) error {
	if i := slices.Index(o.Sources, nil); i >= 0 {
		return fmt.Errorf("Options.Sources[%d] is nil", i)
	}
	if err := o.validateConfig(c); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(o.InProcess)) {
		if !slices.ContainsFunc(c.Providers, func(p config.Provider) bool { return p.Name == name }) {
			return fmt.Errorf("Options.InProcess: the configuration has no provider %q", name)
		}
	}
	return nil
}

func (o *Options) validateConfig(c *config.Config) error {
	if c == nil {
		return errors.New("the configuration is nil")
	}
	if path, _ := c.Path(); path == "" && len(c.Files()) == 0 && len(c.Providers) == 0 {
		return nil // no providers, like a kubelet without a configuration
	}
	if err := c.Validate(); err != nil {
		return err
	}
	for i := range c.Providers {
		if name := c.Providers[i].Name; o.BinDir == "" && o.InProcess[name] == nil {
			return fmt.Errorf("Options.BinDir is required: provider %q is an executable", name)
		}
	}
	return nil
}
