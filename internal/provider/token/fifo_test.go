// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package token

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// TestNamedPipe verifies that a named pipe is rejected without waiting for a writer.
func TestNamedPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	const want = "is a named pipe, not a regular file"
	_, err := Load(pipe)
	checkError(t, err, want)
	for _, x := range []*Exchange{
		{URL: "https://sts.example", TokenExchange: &TokenExchange{}, CAFile: pipe},
		{URL: "https://sts.example", TokenExchange: &TokenExchange{}, BasicAuth: &BasicAuth{Username: "u", Password: "{file:" + pipe + "}"}},
		{URL: "https://sts.example", Form: map[string]string{"a": "{jwt}"}, JWT: &JWT{KeyFile: pipe}, Response: Response{Secret: "a"}},
	} {
		_, err := getOutcome(t, newProvider(t, exchangeOptions(x)), newRequest(serviceAccountToken(nil), nil))
		checkError(t, err, want)
	}
	_, err = getOutcome(t, newProvider(t, Options{TokenFile: pipe}), newRequest("", nil))
	checkError(t, err, want)
}
