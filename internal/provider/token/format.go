// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"errors"
	"fmt"
	"io"
)

// An Exchange prints only its address and cannot be encoded, because headers, form,
// claims and password may contain secrets.

// Format writes only the address, for every verb.
func (e Exchange) Format(f fmt.State, _ rune) { io.WriteString(f, "token.Exchange("+e.URL+")") }

// MarshalJSON always fails.
func (e Exchange) MarshalJSON() ([]byte, error) { return nil, errNotSerializable }

// GobEncode always fails.
func (e Exchange) GobEncode() ([]byte, error) { return nil, errNotSerializable }

// Format writes only the user name, for every verb.
func (a BasicAuth) Format(f fmt.State, _ rune) {
	io.WriteString(f, "token.BasicAuth("+a.Username+")")
}

// MarshalJSON always fails.
func (a BasicAuth) MarshalJSON() ([]byte, error) { return nil, errNotSerializable }

// GobEncode always fails.
func (a BasicAuth) GobEncode() ([]byte, error) { return nil, errNotSerializable }

// Format writes only the path of the key, for every verb.
func (j JWT) Format(f fmt.State, _ rune) { io.WriteString(f, "token.JWT("+j.KeyFile+")") }

// MarshalJSON always fails.
func (j JWT) MarshalJSON() ([]byte, error) { return nil, errNotSerializable }

// GobEncode always fails.
func (j JWT) GobEncode() ([]byte, error) { return nil, errNotSerializable }

var errNotSerializable = errors.New("this value cannot be marshalled, because it might contain secrets")
