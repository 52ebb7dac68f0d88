// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/regcred/regcred/plugin"
)

// fmt prints what stands in unexported fields, and behind a pointer that does
// not suit the verb, without asking any method. A Secret is opaque even then;
// what holds secrets as bytes or text formats itself.

// Format writes r without the data of its pull secrets, whatever the verb.
func (r Request) Format(f fmt.State, verb rune) {
	type plain Request
	fmt.Fprintf(f, fmt.FormatString(f, verb), plain(r))
}

// Format writes namespace and name of s, whatever the verb.
func (s PullSecret) Format(f fmt.State, _ rune) { io.WriteString(f, s.title()) }

// LogValue returns the same.
func (s PullSecret) LogValue() slog.Value { return slog.StringValue(s.title()) }

// MarshalJSON always fails, as that of [Secret] does.
func (s PullSecret) MarshalJSON() ([]byte, error) { return plugin.NewSecret("").MarshalJSON() }

// MarshalText always fails too.
func (s PullSecret) MarshalText() ([]byte, error) { return plugin.Secret{}.MarshalText() }

// Format writes BinDir alone, whatever the verb: an environment holds secrets.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "{BinDir: %q}", o.BinDir) }

// Format writes the providers of k, whatever the verb.
func (k *Keyring) Format(f fmt.State, _ rune) {
	runners := k.ring.Load().runners
	names := make([]string, len(runners))
	for i, r := range runners {
		names[i] = r.name
	}
	fmt.Fprintf(f, "keyring%q", names)
}
