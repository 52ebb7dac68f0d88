// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/upstream/skew/protocol"
)

// TestOracleEnds: an oracle works below its own directory, which goes with all that
// one leaves that was killed; and with what it has ended is said once.
func TestOracleEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "oracle")
	const program = "#!/bin/sh\nread question\nprintf '{\"vector\": {\"kubelet\": \"%s\"}}' \"$TMPDIR\"\nread question\nexit 7\n"
	if err := os.WriteFile(path, []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GODEBUG", "urlstrictcolons=0") // which it must not get
	o := &oracle{version: "v1.33.13"}
	if err := o.run(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(o.cmd.Env, func(v string) bool { return strings.HasPrefix(v, "GODEBUG=") }) {
		t.Errorf("it has %q", o.cmd.Env)
	}
	ask := protocol.Question{Kind: protocol.About}
	if err := o.ask(ask, &o.build); err != nil || o.build.Kubelet != filepath.Dir(path) {
		t.Errorf("it works in %q, %v; want %q", o.build.Kubelet, err, filepath.Dir(path))
	}
	err := errors.Join(o.ask(ask, &o.build), o.close())
	if want := "the oracle of kubelet v1.33.13 answers no more: EOF\nexit status 7"; err == nil || err.Error() != want {
		t.Errorf("got %v; want %s", err, want)
	}
}
