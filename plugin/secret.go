// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// secretMask is printed instead of a non-empty [Secret].
const secretMask = "[redacted]"

// Secret is a password or token. It prints as "[redacted]" in fmt and slog. It cannot be
// marshaled, so that neither the secret nor the mask is written by accident. [Secret.Reveal]
// returns the value.
//
// The value is held in a closure. Therefore code that reads struct fields by reflection, such
// as fmt, go-cmp and spew, does not find it. Compare secrets with [Secret.Equal].
//
// The zero value is the empty secret, which prints as "". A Secret is immutable and safe for
// concurrent use.
type Secret struct{ reveal func() string }

// NewSecret returns a Secret that holds text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{} // so that all empty secrets are identical
	}
	return Secret{func() string { return text }}
}

// NewSecrets returns a Secret for each string, for example for [Command.Args].
func NewSecrets(texts ...string) []Secret {
	secrets := make([]Secret, len(texts))
	for i, text := range texts {
		secrets[i] = NewSecret(text)
	}
	return secrets
}

func revealAll(secrets []Secret) []string {
	texts := make([]string, len(secrets))
	for i, s := range secrets {
		texts[i] = s.Reveal()
	}
	return texts
}

// Reveal returns the secret's value.
func (s Secret) Reveal() string {
	if s.reveal == nil {
		return ""
	}
	return s.reveal()
}

// IsZero reports whether s is the empty secret.
func (s Secret) IsZero() bool { return s.reveal == nil }

// Equal reports whether two secrets are equal. Its running time depends only on their
// lengths.
func (s Secret) Equal(t Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(t.Reveal())) == 1
}

// String returns the mask, or "" for the empty secret.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return secretMask
}

// Format writes the mask for every verb. Otherwise %x would print the closure's
// address.
func (s Secret) Format(f fmt.State, verb rune) {
	if verb == 'q' || f.Flag('#') {
		fmt.Fprintf(f, "%q", s.String())
		return
	}
	io.WriteString(f, s.String())
}

// LogValue returns the mask.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

var errMarshalSecret = errors.New("a Secret cannot be marshalled; if needed, marshal the result of its Reveal method")

// MarshalText always returns an error, so that encoders of JSON, XML and YAML do not write the
// mask as a password. Encoding with gob also fails, because Secret has no exported fields.
func (s Secret) MarshalText() ([]byte, error) { return nil, errMarshalSecret }

// UnmarshalText sets s to text, for decoders of JSON, XML and YAML.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}
