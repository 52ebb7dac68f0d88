// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package report

import (
	"errors"
	"strings"

	"github.com/regcred/regcred/finding"
)

// StopsKubelet tells the findings about executables for which the kubelet
// exits (RegisterCredentialProviderPlugins in plugins.go): its verdict has
// two parts, of which [config.Config.Validate] is one.
func StopsKubelet(f finding.Finding) bool {
	switch f.Rule {
	case "missing-bin-dir", "missing-binary", "not-executable":
		return true
	}
	return false
}

// KubeletExits says why a kubelet would exit at its start, of what the linter
// found about executables; nil if for nothing.
func KubeletExits(findings []finding.Finding) error {
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
