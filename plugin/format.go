// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"fmt"
	"io"
	"log/slog"
)

// fmt reports a verb that does not suit a pointer by printing what it points
// to, without asking any method: fmt.Sprintf("%s", struct{ R *Response }{r})
// would print passwords. So the types that hold secrets format themselves: as
// fmt would, but field by field.

// Format writes r with its token masked, whatever the verb.
func (r Request) Format(f fmt.State, verb rune) {
	type plain Request
	fmt.Fprintf(f, fmt.FormatString(f, verb), plain(r))
}

// Format writes r with its passwords masked, whatever the verb.
func (r Response) Format(f fmt.State, verb rune) {
	type plain Response
	fmt.Fprintf(f, fmt.FormatString(f, verb), plain(r))
}

// Format writes a with its password masked, whatever the verb.
func (a AuthConfig) Format(f fmt.State, verb rune) {
	type plain AuthConfig
	fmt.Fprintf(f, fmt.FormatString(f, verb), plain(a))
}

// Format writes x with its secrets masked, whatever the verb.
func (x Exchange) Format(f fmt.State, verb rune) {
	type plain Exchange
	fmt.Fprintf(f, fmt.FormatString(f, verb), plain(x))
}

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
