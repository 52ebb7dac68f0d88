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

func configRules() []rules.Rule[*config.Config] {
	return []rules.Rule[*config.Config]{
		rules.ErrorRule("second-document", checkSecondDocument),
		rules.WarningRule("predecessor-config", checkPredecessorConfig),
		rules.WarningRule("old-api-version", checkConfigVersion),
		rules.WarningRule("writable-by-others", checkWritableConfig),
	}
}

func checkSecondDocument(c *config.Config) (rs []rules.Result) {
	for _, f := range c.Files() {
		if _, line := textedit.KubeletDocument(f.Data()); line > 0 {
			rs = append(rs, rules.NewPositionResult(config.Position{File: f.Name, Line: line}, "merge the providers into one list, or split them into files in a directory",
				"a second YAML document begins here, and %s silently ignores it", runnerForConfig(f.OutOfTree()).name)...)
		}
	}
	return rs
}

func checkPredecessorConfig(c *config.Config) (rs []rules.Result) {
	for _, f := range c.Files() {
		if f.OutOfTree() {
			rs = append(rs, rules.NewPositionResult(f.Position("kind"), "run regcred convert",
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
		rs = append(rs, rules.NewPositionResult(f.Position("apiVersion"), config.V1, "%s is superseded by v1, which kubelet 1.26 and later support; tokenAttributes requires v1", f.APIVersion)...)
	}
	return rs
}

func checkWritableConfig(c *config.Config) (rs []rules.Result) {
	if path, dir := c.Path(); dir {
		if who := describeWhoCanWrite(path, false); who != "" {
			return rules.NewPositionResult(config.Position{File: path}, "make the directory writable only by its owner", "%s, so other users can change what %s", who, runnerForProviders(c).runsText)
		}
	}
	reported := map[string]bool{} // files in the same directory can have the same problem
	for _, f := range c.Files() {
		name := f.Name
		if who := describeWhoCanChange(name, anyOwner); who != "" && !reported[who] {
			reported[who] = true
			rs = append(rs, rules.NewPositionResult(config.Position{File: name}, "make the file and its parent directories writable only by their owner", "%s, so other users can change what %s", who, runnerForConfig(f.OutOfTree()).runsText)...)
		}
	}
	return rs
}

// pluginRunner is the program that reads a configuration file and runs its plugins.
type pluginRunner struct {
	name      string
	runsText  string // the end of the sentence "other users can change what …"
	failsText string // the end of the sentence "the executable is missing, so …"
}

func runnerForConfig(predecessor bool) pluginRunner {
	if predecessor {
		return pluginRunner{"regcred", "regcred runs", "regcred cannot run the plugin"}
	}
	return pluginRunner{"the kubelet", "the kubelet runs as root", "the kubelet exits"}
}

// runnerForProviders returns the program that runs c's plugins. This is the kubelet, unless all
// providers are from the out-of-tree proposal, which only regcred supports.
func runnerForProviders(c *config.Config) pluginRunner {
	forKubelet := slices.ContainsFunc(c.Providers, func(p config.Provider) bool { return p.APIVersion != plugin.OutOfTree })
	return runnerForConfig(!forKubelet && len(c.Providers) > 0)
}
