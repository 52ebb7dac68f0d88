// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"fmt"

	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
)

// credentialTable prints a table of credentials, in their order.
func credentialTable(t *terminal.Text, creds []report.Credential) {
	var rows [][]string
	for i, c := range creds {
		rows = append(rows, []string{fmt.Sprint(i + 1), cmp.Or(c.Username, "-"), c.Match, c.Source.String(), t.Until(c.CachedUntil)})
	}
	t.Table([]string{"#", "USER", "FOR", "FROM", "CACHED UNTIL"}, rows)
	for i, c := range creds {
		if note := c.Note(); note != "" {
			t.Detail("%d: %s", i+1, note)
		}
	}
}

// loginText describes a credential, or "anonymous" for nil.
func loginText(c *report.Credential) string {
	if c == nil {
		return "none (anonymous)"
	}
	return fmt.Sprintf("%s, user %q", c.Source.String(), c.Username)
}
