// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// roleChain lists the roles to assume for one account's registries.
type roleChain struct {
	roles      []string // ARNs in the order they are assumed
	externalID string   // "" means none is sent
}

// remainingAfter returns the roles that remain to be assumed once role is held.
func (c roleChain) remainingAfter(role string) roleChain {
	if i := slices.Index(c.roles, role); i >= 0 {
		c.roles = c.roles[i+1:]
	}
	return c
}

// parseRoles parses the values of --role (ACCOUNT=ARN[,ARN…]) and --external-id (ACCOUNT=ID).
func parseRoles(roles, externalIDs []string) (map[string]roleChain, error) {
	chains := map[string]roleChain{}
	for _, entry := range roles {
		account, list, err := splitAccountEntry(entry, "ARN[,ARN…]")
		if _, twice := chains[account]; err == nil && twice {
			err = errors.New("a --role flag is already set for this account; list all of its roles, in order, in one --role flag")
		}
		// A role name can contain commas but no colons, so ",arn:" always starts another ARN.
		c := roleChain{roles: strings.Split(list, ",arn:")}
		for i := range c.roles[1:] {
			c.roles[i+1] = "arn:" + c.roles[i+1]
		}
		if err == nil {
			err = c.validate()
		}
		if err != nil {
			return nil, fmt.Errorf("--role %q: %w", entry, err)
		}
		chains[account] = c
	}
	for _, entry := range externalIDs {
		account, id, err := splitAccountEntry(entry, "ID")
		c, hasRoles := chains[account]
		switch {
		case err != nil:
		case !hasRoles:
			err = errors.New("no --role flag is set for this account")
		case c.externalID != "":
			err = errors.New("an --external-id flag is already set for this account")
		case len(id) < 2 || len(id) > 1224 || strings.Trim(id, sessionNameCharacters+":/") != "":
			err = errors.New("must be 2 to 1224 characters long, with only letters, digits and _+=,.@:/-")
		}
		if err != nil {
			return nil, fmt.Errorf("--external-id %q: %w", account+"=…", err)
		}
		c.externalID = id
		chains[account] = c
	}
	return chains, nil
}

func splitAccountEntry(entry, form string) (account, value string, err error) {
	account, value, _ = strings.Cut(entry, "=")
	if !isAccountID(account) {
		return account, value, fmt.Errorf("must be ACCOUNT=%s, with a 12-digit account ID", form)
	}
	return account, value, nil
}

func (c roleChain) validate() error {
	for i, arn := range c.roles {
		switch {
		case !isRoleARN(arn):
			return fmt.Errorf("%q is not a role ARN (arn:aws:iam::ACCOUNT:role/NAME)", arn)
		case slices.Contains(c.roles[:i], arn):
			return fmt.Errorf("duplicate role %q", arn)
		}
	}
	return nil
}

func isAccountID(s string) bool { return len(s) == 12 && strings.Trim(s, digits) == "" }

// isRoleARN reports whether s is a role's ARN.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html
func isRoleARN(s string) bool {
	part := strings.SplitN(s, ":", 6)
	if len(part) != 6 || part[0] != "arn" || part[2] != "iam" || part[3] != "" || !isAccountID(part[4]) {
		return false
	}
	name, isRole := strings.CutPrefix(part[5], "role/")
	return isRole && isRegion(part[1]) && name != "" && !strings.HasSuffix(name, "/") && len(s) <= 2048 &&
		strings.Trim(name, sessionNameCharacters+"/") == ""
}

const (
	digits = "0123456789"
	// sessionNameCharacters are the characters allowed in IAM and STS names, [\w+=,.@-].
	sessionNameCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" + digits + "_+=,.@-"
)
