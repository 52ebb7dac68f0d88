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

// current are the providers of this process; nil if none are registered. The
// kubelet's other packages call functions of this one, and have no value that
// could hold them.
var current atomic.Pointer[providers]

// RegisterCredentialProviderPlugins is called once, at the start of a kubelet
// that has one of the flags --image-credential-provider-config and
// --image-credential-provider-bin-dir. An error ends the kubelet. It refuses what
// the kubelet's own package refuses: a directory or executable that is not
// there, and a configuration that is not valid for this release and its
// feature gates.
//
// Called again, it replaces what was registered before, with which lookups that are
// under way end; nothing is replaced if it fails.
func RegisterCredentialProviderPlugins(configPath, binDir string, getToken getServiceAccountTokenFunc, getAccount GetServiceAccountFunc) error {
	p, err := open(configPath, binDir, accounts{getAccount, getToken})
	if err != nil {
		return err
	}
	registerMetrics()
	recordConfigHash(p.hash)
	current.Store(p)
	return nil
}

// open makes providers of a configuration.
func open(configPath, binDir string, a accounts) (*providers, error) {
	if _, err := os.Stat(binDir); errors.Is(err, fs.ErrNotExist) {
		// Whoever restarts kubelets, "regcred doctor" among them, knows this text and three below.
		return nil, fmt.Errorf("plugin binary directory %s did not exist: create it, or correct --image-credential-provider-bin-dir", binDir)
	} else if err != nil {
		return nil, fmt.Errorf("plugin binary directory: %w", err)
	}
	binDir, err := filepath.Abs(binDir) // of ".", the name alone would be looked for in PATH
	if err != nil {
		return nil, fmt.Errorf("plugin binary directory %s: %w", binDir, err)
	}
	p := &providers{path: configPath, binDir: binDir, now: time.Now}
	c, err := p.load()
	if err == nil {
		err = p.executables(c)
	}
	if err == nil {
		p.hash, p.seen.names = c.Hash(), filesOf(c)
		p.keyring, err = regcred.New(c, regcred.Options{BinDir: binDir, ServiceAccounts: a, Observer: observe})
	}
	return p, err
}

// load reads the configuration, and refuses what a kubelet of this release does.
func (p *providers) load() (*config.Config, error) {
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
		// Not the version that is shown: a build may call itself as it likes.
		KubeletVersion: version.DefaultKubeBinaryVersion,
		FeatureGates:   map[string]bool{string(features.KubeletServiceAccountTokenForCredentialProviders): withTokens()},
	}
	if err := c.ValidateFor(target); err != nil {
		return nil, fmt.Errorf("credential provider configuration: %w", err)
	}
	return c, nil
}

// executables refuses a configuration with a provider that cannot be run.
func (p *providers) executables(c *config.Config) error {
	for i := range c.Providers {
		name, place := c.Providers[i].Name, c.Place(i, "name")
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

// withTokens reports whether providers get tokens of service accounts.
func withTokens() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.KubeletServiceAccountTokenForCredentialProviders)
}
