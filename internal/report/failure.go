// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package report

// Exit codes of regcred.
const (
	ExitOK     = 0
	ExitFailed = 1
	ExitUsage  = 2
	ExitEmpty  = 3 // nothing matched, an empty response, or nothing is installed
)

// Failure is printed with -o json by a command that has no other result.
type Failure struct {
	Errors []ErrorHint `json:"errors"`
}

// ErrorHint is an error and how to fix it.
type ErrorHint struct {
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}
