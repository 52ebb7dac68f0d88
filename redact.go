// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/regcred/regcred/plugin"
)

// Package fmt does not call methods on values in unexported fields. So types that hold secrets
// as text need a Format method. A plugin.Secret does not, because fmt cannot read its text.

// Format writes r without the data of its pull secrets, for every verb.
func (r Request) Format(f fmt.State, verb rune) {
	type plain Request
	fmt.Fprintf(f, fmt.FormatString(f, verb), plain(r))
}

// Format writes only the namespace and name of s, for every verb.
func (s PullSecret) Format(f fmt.State, _ rune) { io.WriteString(f, s.fullName()) }

// LogValue returns the namespace and name of s.
func (s PullSecret) LogValue() slog.Value { return slog.StringValue(s.fullName()) }

// MarshalText always returns an error, like [plugin.Secret.MarshalText], so that JSON encoders
// cannot write the secret.
func (s PullSecret) MarshalText() ([]byte, error) { return plugin.Secret{}.MarshalText() }

// Format writes only BinDir, for every verb, because Environ may hold secrets.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "{BinDir: %q}", o.BinDir) }

// Format writes only the names of the providers, for every verb.
func (k *Keyring) Format(f fmt.State, _ rune) {
	runners := k.compiled.Load().runners
	names := make([]string, len(runners))
	for i, r := range runners {
		names[i] = r.name
	}
	fmt.Fprintf(f, "keyring%q", names)
}
