// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/lint"
)

// Names lists the providers of a configuration, which are the names of their
// executables too.
func Names(cfg *config.Config) []string {
	var list []string
	for _, p := range cfg.Providers {
		list = append(list, p.Name)
	}
	return list
}

// StopsKubelet tells the findings about executables for which the kubelet
// exits (RegisterCredentialProviderPlugins in plugins.go): its verdict has
// two parts, of which [config.Config.Validate] is one.
func StopsKubelet(f lint.Finding) bool {
	switch f.Rule {
	case "missing-bin-dir", "missing-binary", "not-a-file", "not-executable":
		return true
	}
	return false
}

// KubeletExits says why a kubelet would exit at its start, of what the linter
// found about executables; nil if for nothing.
func KubeletExits(findings []lint.Finding) error {
	var why []string
	for _, f := range findings {
		if StopsKubelet(f) {
			why = append(why, f.Message)
		}
	}
	if why == nil {
		return nil
	}
	return errors.New("the kubelet would not start: " + strings.Join(why, "; "))
}

// FindingText is a finding on a line of its own, as compilers have them.
func FindingText(f lint.Finding) string {
	where := &config.FieldError{File: f.File, Line: f.Line, Column: f.Column, Path: f.Path, Msg: fmt.Sprintf("%s [%s]", f.Message, f.Rule)}
	return where.Error()
}

// Audiences lists the audience of each provider with tokenAttributes once, in
// the order of the configuration.
func Audiences(cfg *config.Config) []string {
	var list []string
	for _, p := range cfg.Providers {
		if t := p.TokenAttributes; t != nil && !slices.Contains(list, t.ServiceAccountTokenAudience) {
			list = append(list, t.ServiceAccountTokenAudience)
		}
	}
	return list
}
