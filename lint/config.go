// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"slices"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/textedit"
	"github.com/regcred/regcred/lint/internal/rules"
	"github.com/regcred/regcred/plugin"
)

// configRules returns the rules that check a configuration as a whole.
func configRules() []rules.Rule[*config.Config] {
	return []rules.Rule[*config.Config]{
		rules.Error("second-document", checkSecondDocument),
		rules.Warning("predecessor-config", checkPredecessorConfig),
		rules.Warning("old-api-version", checkConfigVersion),
		rules.Warning("writable-by-others", checkWritableConfig),
	}
}

func checkSecondDocument(c *config.Config) (rs []rules.Result) {
	for _, f := range c.Files() {
		if _, line := textedit.Document(f.Data()); line > 0 {
			rs = rules.Append(rs, rules.At(config.Position{File: f.Name, Line: line}, "merge the providers into one list, or split them into files in a directory",
				"a second YAML document begins here, and %s silently ignores it", hostOf(f.OutOfTree()))...)
		}
	}
	return rs
}

func checkPredecessorConfig(c *config.Config) (rs []rules.Result) {
	for _, f := range c.Files() {
		if f.OutOfTree() {
			rs = rules.Append(rs, rules.At(f.Position("kind"), "run regcred convert",
				"only regcred supports kind %s, so the kubelet does not start with this file", f.Kind)...)
		}
	}
	return rs
}

func checkConfigVersion(c *config.Config) (rs []rules.Result) {
	for _, f := range c.Files() {
		if f.APIVersion != config.V1Alpha1 && f.APIVersion != config.V1Beta1 {
			continue
		}
		rs = rules.Append(rs, rules.At(f.Position("apiVersion"), config.V1, "%s is superseded by v1, which kubelet 1.26 and later support; tokenAttributes requires v1", f.APIVersion)...)
	}
	return rs
}

func checkWritableConfig(c *config.Config) (rs []rules.Result) {
	if path, dir := c.Path(); dir {
		if who := writableByOthers(path, false); who != "" {
			return rules.At(config.Position{File: path}, "make the directory writable only by its owner", "%s, so other users can change what %s", who, hostOfAny(c).runs())
		}
	}
	reported := map[string]bool{} // a directory can contain several files
	for _, f := range c.Files() {
		name := f.Name
		if who := changeableByOthers(name, anyOwner); who != "" && !reported[who] {
			reported[who] = true
			rs = rules.Append(rs, rules.At(config.Position{File: name}, "make the file and its parent directories writable only by their owner", "%s, so other users can change what %s", who, hostOf(f.OutOfTree()).runs())...)
		}
	}
	return rs
}

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

// runs returns the end of the sentence "other users can change what …".
func (h pluginHost) runs() string {
	if h == kubelet {
		return "the kubelet runs as root"
	}
	return "regcred runs"
}

// fails returns the end of the sentence "the executable is missing, so …".
func (h pluginHost) fails() string {
	if h == kubelet {
		return "the kubelet exits"
	}
	return "regcred cannot run the plugin"
}
