// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"errors"
	"fmt"
	"io"
)

// An Exchange prints as its address, and no encoder writes it: headers, form,
// claims and password may hold secrets, which stand in it as text.

// Format writes the address, whatever the verb.
func (e Exchange) Format(f fmt.State, _ rune) { io.WriteString(f, "token.Exchange("+e.URL+")") }

// MarshalJSON always fails.
func (e Exchange) MarshalJSON() ([]byte, error) { return nil, errNotWritten }

// GobEncode always fails.
func (e Exchange) GobEncode() ([]byte, error) { return nil, errNotWritten }

// Format writes the user name, whatever the verb.
func (a BasicAuth) Format(f fmt.State, _ rune) {
	io.WriteString(f, "token.BasicAuth("+a.Username+")")
}

// MarshalJSON always fails.
func (a BasicAuth) MarshalJSON() ([]byte, error) { return nil, errNotWritten }

// GobEncode always fails.
func (a BasicAuth) GobEncode() ([]byte, error) { return nil, errNotWritten }

// Format writes the path of the key, whatever the verb.
func (j JWT) Format(f fmt.State, _ rune) { io.WriteString(f, "token.JWT("+j.KeyFile+")") }

// MarshalJSON always fails.
func (j JWT) MarshalJSON() ([]byte, error) { return nil, errNotWritten }

// GobEncode always fails.
func (j JWT) GobEncode() ([]byte, error) { return nil, errNotWritten }

var errNotWritten = errors.New("cannot be marshalled because it might contain secrets")
