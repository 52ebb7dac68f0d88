// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"fmt"
	"io"
	"log/slog"
)

// A Command prints as its name: arguments and environment may hold secrets,
// which stand in it as text. No method is asked where a Command is in an
// unexported field, nor by what reads fields, such as go-cmp and reflection:
// who keeps one there, or compares them, prints its Args and Env.

// Format writes the name of c, whatever the verb.
func (c Command) Format(f fmt.State, verb rune) {
	if verb == 'v' && f.Flag('#') {
		io.WriteString(f, c.GoString())
		return
	}
	io.WriteString(f, c.String())
}

// String returns the name of c.
func (c Command) String() string { return c.name() }

// GoString returns the name of c as Go source (fmt's %#v).
func (c Command) GoString() string { return fmt.Sprintf("plugin.Command(%q)", c.name()) }

// LogValue returns the name of c.
func (c Command) LogValue() slog.Value { return slog.StringValue(c.name()) }

// MarshalJSON always fails, as that of [Secret] does.
func (c Command) MarshalJSON() ([]byte, error) { return nil, errMarshalSecret }

// MarshalText always fails too.
func (c Command) MarshalText() ([]byte, error) { return Secret{}.MarshalText() }

// GobEncode always fails too.
func (c Command) GobEncode() ([]byte, error) { return nil, errMarshalSecret }
