// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package cloud creates a keyring that runs the cloud plugins in this process,
// for programs such as a controller that have no plugin binaries. The program pulls
// with its pod's identity, or with the node's if the pod has none.
//
//	amazon, err := ecr.InPod(ecr.Options{})
//	if err != nil {
//		return err
//	}
//	keyring, err := cloud.New(regcred.Options{}, cloud.Provider{Provider: amazon})
//	if err != nil {
//		return err
//	}
//	defer keyring.Close()
//	result, err := keyring.Lookup(ctx, regcred.Request{Image: image})
//
// The program links only the clouds that it uses. The package reads neither
// environment nor files; the providers do.
//
// On a node, use [config.Load] and [regcred.New] instead. The package does not
// detect the cloud: each provider is called for all images of its cloud, and a
// failure fails the lookup. Add only clouds in which the program has an identity.
// docs/keychain-cloud.md lists the identities.
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

// The defaults of [New] for long-running programs.
const (
	// DefaultRefreshAhead is the default for [regcred.Options.RefreshAhead]. Cloud
	// providers' responses are cached for 30 minutes to 6 hours.
	DefaultRefreshAhead = 5 * time.Minute

	// DefaultBackoff is the default for [regcred.Options.Backoff]. It prevents a controller
	// that retries from calling the cloud again right after a failure.
	DefaultBackoff = 30 * time.Second
)

// Provider configures a provider of a keyring.
type Provider struct {
	// Name identifies the provider in attempts and events, and has the form of a
	// plugin's file name. It must be unique. "" means the provider's default name, such
	// as "ecr-credential-provider".
	Name string

	// MatchImages lists image patterns in addition to the provider's own, such as
	// public.ecr.aws for ECR.
	MatchImages []string

	// Provider is the plugin. The plugins in provider/ecr, provider/gcr and
	// provider/acr have a default name and patterns. For other plugins, set Name and
	// MatchImages.
	Provider plugin.Provider
}

// describedProvider is a plugin with a default name and default patterns.
type describedProvider interface {
	Name() string
	MatchImages() []string
}

// New returns a keyring that calls the providers in the given order. It is safe for
// concurrent use and must be closed. No provider is called before the first lookup.
//
// The options are passed to [regcred.New]. BinDir and InProcess must be empty.
// RefreshAhead and Backoff default to the constants above; a negative value disables
// them. Responses without a cache duration are not cached.
func New(opts regcred.Options, providers ...Provider) (*regcred.Keyring, error) {
	k, err := newKeyring(opts, providers)
	if err != nil {
		return nil, fmt.Errorf("cloud: %w", err)
	}
	return k, nil
}

func newKeyring(opts regcred.Options, providers []Provider) (*regcred.Keyring, error) {
	switch {
	case len(providers) == 0:
		return nil, errors.New("at least one provider is required")
	case opts.BinDir != "" || opts.InProcess != nil:
		return nil, errors.New("Options.BinDir and Options.InProcess must be empty")
	}
	cfg := &config.Config{}
	opts.InProcess = map[string]plugin.Provider{}
	for i, p := range providers {
		if own, ok := p.Provider.(describedProvider); ok {
			p.Name, p.MatchImages = cmp.Or(p.Name, own.Name()), slices.Concat(own.MatchImages(), p.MatchImages)
		}
		if err := p.validate(opts.InProcess); err != nil {
			return nil, fmt.Errorf("provider %d: %w", i+1, err)
		}
		opts.InProcess[p.Name] = p.Provider
		cfg.Providers = append(cfg.Providers, config.Provider{
			Name: p.Name, MatchImages: p.MatchImages, DefaultCacheDuration: new(time.Duration(0)), APIVersion: plugin.V1,
		})
	}
	opts.RefreshAhead = cmp.Or(opts.RefreshAhead, DefaultRefreshAhead)
	opts.Backoff = cmp.Or(opts.Backoff, DefaultBackoff)
	return regcred.New(cfg, opts)
}

func (p Provider) validate(others map[string]plugin.Provider) error {
	switch {
	case p.Provider == nil:
		return errors.New("Provider must not be nil")
	case p.Name == "":
		return errors.New("the provider has no name; set Name")
	case len(p.MatchImages) == 0:
		return fmt.Errorf("%q has no default images; set MatchImages", p.Name)
	case others[p.Name] != nil:
		return fmt.Errorf("duplicate name %q; set Name", p.Name)
	}
	return nil
}
