// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

const (
	queriesHeader = "| client | version | private, wrong password, public | Docker Hub | its keys " +
		"| with `credsStore` | Docker Hub, with it | a public registry |\n|---|---|---|---|---|---|---|---|\n"
	reactionsHeader = "| client | helper fails: public | helper fails: private | helper's standard error " +
		"| wrong password | paths | files |\n|---|---|---|---|---|---|---|\n"
)

var pullVerdicts = map[bool]string{true: "yes, refused, yes", false: "FAILED"}

// queriesRow formats a client's queries to the helper.
func queriesRow(name, version, works string, t clientTraits) string {
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s |\n", name, strings.TrimPrefix(version, "v"), works,
		formatAsCode(t.Hub), formatAsCode(t.HubKeys), formatAsCode(t.Store), formatAsCode(t.HubStore), formatAsCode(t.Public))
}

// reactionsRow formats a client's reactions to the helper's responses.
func reactionsRow(name string, t clientTraits) string {
	return fmt.Sprintf("| %s | %s | %s | %s | `%s` | %s | %s |\n", name,
		t.PublicFailure, t.PrivateFailure, t.Stderr, t.WrongPassword, t.Patterns, formatAsCode(t.Files))
}

// formatAsCode formats each element of a comma-separated list as code.
func formatAsCode(list string) string {
	if list == "-" {
		return list
	}
	return "`" + strings.ReplaceAll(list, ", ", "`, `") + "`"
}

// TestDocument verifies that docs/docker-credential-helper.md contains the tables of [clients].
func TestDocument(t *testing.T) {
	content := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "docker-credential-helper.md")))(t)
	asks, does := queriesHeader, reactionsHeader
	for _, c := range clients {
		asks += queriesRow(c.name, c.version, pullVerdicts[true], c.traits)
		does += reactionsRow(c.name, c.traits)
	}
	for _, table := range []string{asks, does} {
		if !strings.Contains(string(content), "\n"+table) {
			t.Errorf("docs/docker-credential-helper.md is without this table:\n%s", table)
		}
	}
}
