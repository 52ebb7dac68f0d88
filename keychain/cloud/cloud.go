// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package cloud makes a keyring of the clouds' plugins in this process, for
// programs where there are no plugins: a controller in a cluster pulls as its
// pod is allowed to, and as its node only where the pod has no identity.
//
//	keyring, err := cloud.Keyring(regcred.Options{},
//		cloud.Use(ecr.InPod(ecr.Options{}, os.Getenv)),
//		cloud.Use(gcr.InPod(gcr.Options{}, os.Getenv)))
//	if err != nil {
//		return err
//	}
//	defer keyring.Close()
//	result, err := keyring.Lookup(ctx, regcred.Request{Image: image})
//
// A program links the clouds that it names, and this package none of them. It
// reads no environment and no file; the providers do.
//
// It is not for nodes, which have a configuration: see [config.Load] and
// [regcred.New]. Nor does it find out in which cloud it runs. A cloud that is
// named is asked for all of its images, and if it cannot answer, that is a
// failure and no anonymous pull: name those of which the program has an
// identity. docs/keychain-cloud.md has a table of the identities.
package cloud

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/plugin"
)

// What a controller has that says nothing of it, since it runs for long.
const (
	// DefaultRefreshAhead is [regcred.Options.RefreshAhead]: a registry that is
	// in use has its next password before the one at hand ends, and nobody
	// waits for it. It is short beside what the clouds' answers are kept for,
	// 30 minutes to 6 hours.
	DefaultRefreshAhead = 5 * time.Minute

	// DefaultBackoff is [regcred.Options.Backoff]: a controller that tries
	// again and again does not ask a cloud each time that has just refused,
	// and notices half a minute later that it would not any more.
	DefaultBackoff = 30 * time.Second
)

// Member is one provider of a keyring. [Use] makes it; its methods return
// another one, and leave it as it is.
type Member struct {
	provider plugin.Provider
	err      error
	name     string
	patterns []string
}

// known is a provider that says by itself what it is called, and which images
// it is for, in the syntax of matchImages. Those of the three clouds do.
type known interface {
	Name() string
	MatchImages() []string
}

// Use takes what the constructor of a provider returns, its error too, which
// [Keyring] reports. One that is none of a cloud's needs [Member.Named] and
// [Member.For].
func Use(p plugin.Provider, err error) Member {
	m := Member{provider: p, err: err}
	if own, ok := p.(known); ok && err == nil {
		m.name, m.patterns = own.Name(), own.MatchImages()
	}
	return m
}

// Named gives it a name, by which attempts and events call it: the form is that
// of a plugin's file name.
func (m Member) Named(name string) Member {
	m.name = name
	return m
}

// For adds images, in the syntax of matchImages, beside those that a cloud's
// provider names by itself: public.ecr.aws for ECR's, where the identity may
// have a credential for that.
func (m Member) For(matchImages ...string) Member {
	m.patterns = slices.Concat(m.patterns, matchImages)
	return m
}

// Keyring makes a keyring of the members, in their order. It is safe for
// concurrent use, asks nobody before the first lookup, and is to be closed.
//
// The options are those of [regcred.New], but that RefreshAhead and Backoff
// have the defaults above if they are 0, and are off if they are negative.
// BinDir and InProcess must be empty.
//
// Errors say which member is at fault: one that could not be made, without a
// name or images, or with the name of another; or that there is none.
func Keyring(opts regcred.Options, members ...Member) (*regcred.Keyring, error) {
	k, err := keyring(opts, members)
	if err != nil {
		return nil, fmt.Errorf("cloud: %w", err)
	}
	return k, nil
}

func keyring(opts regcred.Options, members []Member) (*regcred.Keyring, error) {
	switch {
	case len(members) == 0:
		return nil, errors.New("at least one provider is required")
	case opts.BinDir != "" || opts.InProcess != nil:
		return nil, errors.New("Options.BinDir and Options.InProcess must be empty")
	}
	cfg := &config.Config{}
	opts.InProcess = map[string]plugin.Provider{}
	for i, m := range members {
		if err := m.check(); err != nil {
			return nil, fmt.Errorf("provider %d: %w", i+1, err)
		}
		if opts.InProcess[m.name] != nil {
			return nil, fmt.Errorf("provider %d: duplicate name %q; use Named", i+1, m.name)
		}
		opts.InProcess[m.name] = m.provider
		cfg.Providers = append(cfg.Providers, m.entry())
	}
	opts.RefreshAhead = cmp.Or(opts.RefreshAhead, DefaultRefreshAhead)
	opts.Backoff = cmp.Or(opts.Backoff, DefaultBackoff)
	return regcred.New(cfg, opts)
}

func (m Member) check() error {
	switch {
	case m.err != nil:
		return m.err
	case m.provider == nil:
		return errors.New("must not be nil")
	case m.name == "":
		return errors.New("the provider has no name; use Named")
	case len(m.patterns) == 0:
		return fmt.Errorf("%q has no default images; use For", m.name)
	}
	return nil
}

// entry is what a configuration would say. Answers that do not say how long
// they may be kept are not.
func (m Member) entry() config.Provider {
	return config.Provider{
		Name: m.name, MatchImages: m.patterns, DefaultCacheDuration: new(time.Duration(0)), APIVersion: plugin.V1,
	}
}
