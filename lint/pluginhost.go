// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"slices"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/plugin"
)

// pluginHost is the program that reads a configuration file and runs its plugins.
type pluginHost string

const (
	kubelet pluginHost = "the kubelet"
	regcred pluginHost = "regcred" // for RegistryCredentialConfig files
)

func hostOf(predecessor bool) pluginHost {
	if predecessor {
		return regcred
	}
	return kubelet
}

// hostOfAny returns kubelet if the kubelet reads any of c's providers.
func hostOfAny(c *config.Config) pluginHost {
	forKubelet := slices.ContainsFunc(c.Providers, func(p config.Provider) bool { return p.APIVersion != plugin.OutOfTree })
	return hostOf(!forKubelet && len(c.Providers) > 0)
}

// runs completes "other users can change what …".
func (h pluginHost) runs() string {
	if h == kubelet {
		return "the kubelet runs as root"
	}
	return "regcred runs"
}

// fails completes "the executable is missing, so …".
func (h pluginHost) fails() string {
	if h == kubelet {
		return "the kubelet exits"
	}
	return "regcred cannot run the plugin"
}
