// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"testing"

	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/install"
)

// TestRestartAlone: where nothing but a restart was missing, the generation that is
// current is named, and not the one that was not made.
func TestRestartAlone(t *testing.T) {
	p := &install.Plan{From: &generation.Manifest{Number: 3, Previous: 2}, To: &generation.Manifest{Previous: 3}, Nothing: true, Restart: []string{"it has no entry"}}
	if r := newChangeReport(p, false, nil); r.Outcome != "mended" || r.Generation != 3 || r.Previous != 2 {
		t.Errorf("got %+v", r)
	}
	if r := newChangeReport(p, true, nil); r.Outcome != "planned" || r.Generation != 0 {
		t.Errorf("a dry run: %+v", r)
	}
}
