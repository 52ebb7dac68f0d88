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
	"github.com/regcred/regcred/plugin"
)

// Options configure a [Keyring]. BinDir is required unless all providers are
// in process; every other field may be left at its zero value.
type Options struct {
	// BinDir holds the plugins' executables. PATH is never searched.
	BinDir string

	// Command is how plugins are run, as far as the configuration does not
	// say it: Environ, Dir, Timeout, MaxOutput and Grace. The other fields stay
	// empty. Timeout, of one minute unless set, also bounds one token request
	// and one read of a source.
	Command plugin.Command

	// Sources are asked after the request's pull secrets and before the
	// plugins, each a keyring of its own. A kubelet has one, the node's
	// docker config files: see [NodeDockerConfig].
	Sources []Source

	// ServiceAccounts serves providers with tokenAttributes. While it is nil
	// such a provider fails for pods that have a service account, unless the
	// request brings the token along.
	ServiceAccounts ServiceAccounts

	// InProcess are providers that are called in place of the executable of
	// that name, for programs that link a provider in. They get the same
	// deadline, cache and checks. For [New], each must be in the configuration.
	InProcess map[string]plugin.Provider

	// Observer, if not nil, is called for every exec, cache and failure
	// event, from several goroutines. It must not block: after a second, or
	// when the lookup that it is told of ends, it is left behind. A panic in it
	// is dropped, with the events of which it has not been told.
	Observer func(Event)

	// Logger gets Debug events; nil discards them.
	Logger *slog.Logger

	// MaxCacheEntries bounds the cache of each provider; 0 means 100,000.
	MaxCacheEntries int

	// RefreshAhead, if positive, runs a plugin in the background when a
	// cached answer is used in the last RefreshAhead of its life, or the last
	// quarter if that is shorter (less up to a tenth, so that a fleet does not
	// ask at once). Never in service-account mode.
	RefreshAhead time.Duration

	// Backoff, if positive, is the longest time for which a plugin that
	// failed for an image is not run for it again. It begins at one second,
	// doubles, and is jittered. Never in service-account mode.
	Backoff time.Duration
}

const defaultMaxCacheEntries = 100_000

func (o *Options) timeout() time.Duration {
	if o.Command.Timeout > 0 {
		return o.Command.Timeout
	}
	return plugin.DefaultTimeout
}

func (o *Options) maxCacheEntries() int {
	if o.MaxCacheEntries > 0 {
		return o.MaxCacheEntries
	}
	return defaultMaxCacheEntries
}

// check refuses options that [New] cannot work with, and the configuration.
func (o *Options) check(c *config.Config) error {
	if t := &o.Command; t.Path != "" || t.Name != "" || t.Args != nil || t.Env != nil || t.APIVersion != "" {
		return errors.New("Options.Command: Path, Name, Args, Env and APIVersion must be empty, because the configuration sets them")
	}
	if i := slices.Index(o.Sources, nil); i >= 0 {
		return fmt.Errorf("Options.Sources[%d] is nil", i)
	}
	if err := o.checkConfig(c); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(o.InProcess)) {
		if !slices.ContainsFunc(c.Providers, func(p config.Provider) bool { return p.Name == name }) {
			return fmt.Errorf("Options.InProcess: the configuration has no provider %q", name)
		}
	}
	return nil
}

// checkConfig refuses a configuration that cannot be worked with.
func (o *Options) checkConfig(c *config.Config) error {
	if c == nil {
		return errors.New("the configuration is nil")
	}
	if path, _ := c.Path(); path == "" && len(c.Files()) == 0 && len(c.Providers) == 0 {
		return nil // as a kubelet that was given no configuration
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
