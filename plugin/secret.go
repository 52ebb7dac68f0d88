// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// mask is what a non-empty [Secret] prints as.
const mask = "[redacted]"

// Secret is a password or token. It prints as a mask in fmt and in every slog
// handler, and refuses to be marshalled, so that neither a secret nor a mask
// is ever written by accident. string(s) is the value.
//
// Three places are beyond its reach, since no method of a value is asked
// there: an unexported field of a struct that is printed, the key of a map
// that is marshalled, and the verbs %p and %w, which go vet refuses.
//
// The zero value is the empty secret; it prints as nothing.
type Secret string

// String returns a mask, or "" for the empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return mask
}

// GoString returns a mask (fmt's %#v).
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// Format writes a mask whatever the verb, so that %x and %d do not leak.
func (s Secret) Format(f fmt.State, verb rune) {
	if verb == 'q' || f.Flag('#') {
		io.WriteString(f, s.GoString())
		return
	}
	io.WriteString(f, s.String())
}

// LogValue returns a mask.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

var errMarshalSecret = errors.New("a Secret is not marshalled: convert it with string(s) where it must be written")

// MarshalJSON always fails: a mask must never be written as a password.
func (s Secret) MarshalJSON() ([]byte, error) { return nil, errMarshalSecret }

// MarshalText always fails, as MarshalJSON does; encoders of other formats ask for it.
func (s Secret) MarshalText() ([]byte, error) { return nil, errMarshalSecret }
