// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"errors"
	"fmt"
	"strings"
)

// expandUsername returns the user name, or "" if it comes from the exchange.
func (p *Provider) expandUsername(v placeholderValues) (string, error) {
	if p.username == nil {
		return "", nil
	}
	username, err := p.username.expand(v, noEscape)
	if err == nil {
		err = checkUsername(username)
	}
	if err != nil {
		return "", fmt.Errorf("username: %w", err)
	}
	return username, nil
}

// checkUsername rejects user names that HTTP Basic authentication cannot carry (RFC
// 7617, section 2). Anything after a colon would be parsed as the password.
func checkUsername(name string) error {
	switch {
	case name == "":
		return errors.New("the user name is empty")
	case strings.ContainsFunc(name, isControl):
		return errors.New("the user name contains a control character")
	case strings.Contains(name, ":"):
		return errors.New("the user name contains a colon, which HTTP Basic authentication does not allow")
	}
	return nil
}
