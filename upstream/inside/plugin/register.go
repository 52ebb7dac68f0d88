// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/version"
	"k8s.io/kubernetes/pkg/features"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
)

// currentProviders holds the registered providers, or nil. It is global because the kubelet's other
// packages call this package's functions without a receiver.
var currentProviders atomic.Pointer[providers]

// RegisterCredentialProviderPlugins loads the configuration and registers its providers. The
// kubelet calls it once, at its start, if one of the flags --image-credential-provider-config and
// --image-credential-provider-bin-dir is set, and exits if it fails. Like the kubelet's own
// package, it rejects a missing directory or executable, and a configuration that is not valid for
// this release and its feature gates.
//
// Another call replaces the providers. Lookups in progress finish with the old providers. If the
// call fails, the old providers stay registered.
func RegisterCredentialProviderPlugins(configPath, binDir string, getToken getServiceAccountTokenFunc, getAccount GetServiceAccountFunc) error {
	p, err := openProviders(configPath, binDir, accountClient{getAccount, getToken})
	if err != nil {
		return err
	}
	registerMetrics()
	recordConfigHash(p.hash)
	currentProviders.Store(p)
	return nil
}

// openProviders loads a configuration and returns its providers.
func openProviders(configPath, binDir string, a accountClient) (*providers, error) {
	if _, err := os.Stat(binDir); errors.Is(err, fs.ErrNotExist) {
		// Tools that restart kubelets, such as "regcred doctor", search for this text and for three
		// of the texts below.
		return nil, fmt.Errorf("plugin binary directory %s did not exist: create it, or correct --image-credential-provider-bin-dir", binDir)
	} else if err != nil {
		return nil, fmt.Errorf("plugin binary directory: %w", err)
	}
	binDir, err := filepath.Abs(binDir) // with "." exec would search for the name in PATH
	if err != nil {
		return nil, fmt.Errorf("plugin binary directory %s: %w", binDir, err)
	}
	p := &providers{path: configPath, binDir: binDir, now: time.Now}
	c, err := p.loadConfig()
	if err == nil {
		err = p.checkExecutables(c)
	}
	if err == nil {
		p.hash, p.filesState.names = c.Hash(), configFileNames(c)
		p.keyring, err = regcred.New(c, regcred.Options{BinDir: binDir, ServiceAccounts: a, Observer: observeEvent})
	}
	return p, err
}

// loadConfig reads the configuration. It returns an error if a kubelet of this release would reject
// it.
func (p *providers) loadConfig() (*config.Config, error) {
	if p.path == "" {
		return nil, errors.New("credential provider configuration: no path is given: set --image-credential-provider-config, or remove --image-credential-provider-bin-dir")
	}
	c, err := config.Load(p.path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("credential provider configuration: unable to access path %q: %w", p.path, err)
	} else if err != nil {
		return nil, fmt.Errorf("credential provider configuration: %w", err)
	}
	target := config.Target{
		// Do not use the displayed version: a build may set it to anything.
		KubeletVersion: version.DefaultKubeBinaryVersion,
		FeatureGates:   map[string]bool{string(features.KubeletServiceAccountTokenForCredentialProviders): tokensEnabled()},
	}
	if err := c.ValidateFor(target); err != nil {
		return nil, fmt.Errorf("credential provider configuration: %w", err)
	}
	return c, nil
}

// checkExecutables returns an error if a provider's executable cannot be run.
func (p *providers) checkExecutables(c *config.Config) error {
	for i := range c.Providers {
		name, at := c.Providers[i].Name, c.Position(i, "name")
		place := fmt.Sprintf("%s:%d", at.File, at.Line)
		path := filepath.Join(p.binDir, name)
		_, err := exec.LookPath(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("plugin binary executable %s did not exist: put it there, or correct credential provider %q (%s)", path, name, place)
		case err != nil:
			return fmt.Errorf("error inspecting binary executable of credential provider %q (%s): %w", name, place, err)
		}
	}
	return nil
}

// tokensEnabled reports whether providers get service account tokens.
func tokensEnabled() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.KubeletServiceAccountTokenForCredentialProviders)
}
