// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"fmt"
	"io"
	"log/slog"
)

// fmt prints what stands in unexported fields, and behind a pointer that does
// not suit the verb, without asking a Secret to mask itself. So what holds
// secrets formats itself, as in package plugin.

// Format writes c with its password masked, whatever the verb.
func (c Credential) Format(f fmt.State, verb rune) {
	type plain Credential
	fmt.Fprintf(f, fmt.FormatString(f, verb), plain(c))
}

// Format writes r with its passwords masked, whatever the verb.
func (r Result) Format(f fmt.State, verb rune) {
	type plain Result
	fmt.Fprintf(f, fmt.FormatString(f, verb), plain(r))
}

// Format writes r with its secrets masked, whatever the verb.
func (r Request) Format(f fmt.State, verb rune) {
	type plain Request
	fmt.Fprintf(f, fmt.FormatString(f, verb), plain(r))
}

// Format writes s with its passwords masked, whatever the verb.
func (s AuthSet) Format(f fmt.State, verb rune) {
	type plain AuthSet
	fmt.Fprintf(f, fmt.FormatString(f, verb), plain(s))
}

// Format writes v with its value masked, whatever the verb.
func (v EnvVar) Format(f fmt.State, verb rune) {
	type plain EnvVar
	fmt.Fprintf(f, fmt.FormatString(f, verb), plain(v))
}

// Format writes namespace and name of s, whatever the verb.
func (s PullSecret) Format(f fmt.State, _ rune) { io.WriteString(f, s.title()) }

// LogValue returns the same.
func (s PullSecret) LogValue() slog.Value { return slog.StringValue(s.title()) }

// MarshalJSON always fails, as that of [Secret] does.
func (s PullSecret) MarshalJSON() ([]byte, error) { return Secret("").MarshalJSON() }

// Format writes the name of p, whatever the verb: values of args and env are secrets.
func (p Provider) Format(f fmt.State, _ rune) { io.WriteString(f, p.Name) }

// LogValue returns the name of p.
func (p Provider) LogValue() slog.Value { return slog.StringValue(p.Name) }

// Format writes where c was loaded from and what providers it has, whatever the verb.
func (c Config) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "%s%v", c.path, c.Providers) }

// LogValue returns the same.
func (c Config) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(c)) }

// Format writes the name of f, whatever the verb: Data holds secrets.
func (f File) Format(s fmt.State, _ rune) { io.WriteString(s, f.Name) }

// LogValue returns the same.
func (f File) LogValue() slog.Value { return slog.StringValue(f.Name) }

// MarshalJSON always fails, as that of [Secret] does.
func (f File) MarshalJSON() ([]byte, error) { return Secret("").MarshalJSON() }

// Format writes BinDir alone, whatever the verb: an environment holds secrets.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "{BinDir: %q}", o.BinDir) }

// Format writes the providers of k, whatever the verb.
func (k *Keyring) Format(f fmt.State, _ rune) {
	names := make([]string, len(k.runners))
	for i, r := range k.runners {
		names[i] = r.name
	}
	fmt.Fprintf(f, "keyring%q", names)
}
