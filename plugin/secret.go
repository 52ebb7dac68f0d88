// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// mask is what a [Secret] prints as, unless it is empty.
const mask = "[redacted]"

// Secret is a password or token. It prints as a mask in fmt and in every slog
// handler, and refuses to be marshalled, so that neither a secret nor a mask
// is ever written by accident. [Secret.Reveal] gives the value.
//
// The value stands in a closure, where nothing finds it that looks into a
// struct, whatever verb, logger, spew or go-cmp: not in an unexported field,
// nor behind a pointer, where package fmt asks no method. So a Secret cannot
// be compared with ==; there is [Secret.Equal].
//
// The zero value is the empty secret; it prints as nothing. A Secret is a
// value, never changed, and safe for concurrent use.
type Secret struct{ reveal func() string }

// NewSecret hides a text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{} // so that the empty secret is one value
	}
	return Secret{func() string { return text }}
}

// Reveal returns the text. Where it is called, a secret leaves.
func (s Secret) Reveal() string {
	if s.reveal == nil {
		return ""
	}
	return s.reveal()
}

// IsZero reports whether s is the empty secret.
func (s Secret) IsZero() bool { return s.reveal == nil }

// Equal reports whether two secrets are the same, in a time that tells their
// lengths alone.
func (s Secret) Equal(t Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(t.Reveal())) == 1
}

// String returns a mask, or "" for the empty secret.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return mask
}

// GoString returns a mask (fmt's %#v).
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// Format writes a mask whatever the verb, so that %x and %d do not print the
// address of code.
func (s Secret) Format(f fmt.State, verb rune) {
	if verb == 'q' || f.Flag('#') {
		io.WriteString(f, s.GoString())
		return
	}
	io.WriteString(f, s.String())
}

// LogValue returns a mask.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

var errMarshalSecret = errors.New("a Secret cannot be marshalled; if needed, marshal the result of its Reveal method")

// MarshalJSON always fails: a mask must never be written as a password.
func (s Secret) MarshalJSON() ([]byte, error) { return nil, errMarshalSecret }

// MarshalText always fails, as MarshalJSON does; encoders of other formats ask for it.
func (s Secret) MarshalText() ([]byte, error) { return nil, errMarshalSecret }

// GobEncode always fails too.
func (s Secret) GobEncode() ([]byte, error) { return nil, errMarshalSecret }

// GobDecode always fails: nothing writes a Secret.
func (s *Secret) GobDecode([]byte) error { return errMarshalSecret }

// UnmarshalText reads a secret from formats that ask for it, such as XML, which
// otherwise would leave it empty without a word.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}

// UnmarshalJSON reads a string, and leaves s as it is for null, as for any
// string. Its error does not quote what it read.
func (s *Secret) UnmarshalJSON(data []byte) error {
	var text *string
	if err := json.Unmarshal(data, &text); err != nil {
		return errors.New("a secret must be a string")
	}
	if text != nil {
		*s = NewSecret(*text)
	}
	return nil
}
