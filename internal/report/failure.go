// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package report

import (
	"errors"
	"strings"

	"github.com/regcred/regcred/finding"
)

// Exit codes of regcred.
const (
	ExitOK     = 0
	ExitFailed = 1
	ExitUsage  = 2
	ExitEmpty  = 3 // no match, an empty response, or nothing installed
)

// Failure is the JSON result (-o json) of a command that fails before it has another result.
type Failure struct {
	Errors []ErrorHint `json:"errors"`
}

// ErrorHint is an error with a hint for fixing it.
type ErrorHint struct {
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// StopsKubelet reports whether a finding about executables makes the kubelet exit at
// startup. [config.Config.Validate] returns the other reasons.
//
// kubelet: RegisterCredentialProviderPlugins in plugins.go
func StopsKubelet(f finding.Finding) bool {
	switch f.Rule {
	case "missing-bin-dir", "missing-binary", "not-executable":
		return true
	}
	return false
}

// KubeletStopError returns an error that lists the findings that stop the kubelet, or nil.
func KubeletStopError(findings []finding.Finding) error {
	var reasons []string
	for _, f := range findings {
		if StopsKubelet(f) {
			reasons = append(reasons, f.Message)
		}
	}
	if reasons == nil {
		return nil
	}
	return errors.New("the kubelet would not start: " + strings.Join(reasons, "; "))
}
