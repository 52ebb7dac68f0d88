// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"errors"
	"fmt"
	"io"
)

// Unprintable is embedded in types that may contain secrets. It prevents printing and encoding of
// their values.
type Unprintable struct{}

// Format writes "[redacted]" for every verb.
func (Unprintable) Format(f fmt.State, _ rune) { io.WriteString(f, "[redacted]") }

// MarshalJSON always fails.
func (Unprintable) MarshalJSON() ([]byte, error) { return nil, errNotSerializable }

// GobEncode always fails.
func (Unprintable) GobEncode() ([]byte, error) { return nil, errNotSerializable }

var errNotSerializable = errors.New("this value cannot be marshalled, because it might contain secrets")
