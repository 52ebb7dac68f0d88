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

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/release"
	"github.com/regcred/regcred/upstream/skew/protocol"
)

// TestOracleEnds verifies an oracle that exits. The oracle works in its own directory, which is
// removed with all files that a killed oracle leaves. Its exit error must be reported once.
func TestOracleEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "oracle")
	const program = "#!/bin/sh\nread question\nprintf '{\"vector\": {\"kubelet\": \"%s\"}}' \"$TMPDIR\"\nread question\nexit 7\n"
	must.Do(t, os.WriteFile(path, []byte(program), 0o700))
	t.Setenv("GODEBUG", "urlstrictcolons=0") // must not be passed on
	o := &kubeletProcess{version: "v1.33.13"}
	must.Do(t, o.startProcess(t.Context(), path))
	if slices.ContainsFunc(o.cmd.Env, func(v string) bool { return strings.HasPrefix(v, "GODEBUG=") }) {
		t.Errorf("it has %q", o.cmd.Env)
	}
	ask := protocol.Query{Kind: protocol.BuildQuery}
	if err := o.query(ask, &o.build); err != nil || o.build.Kubelet != filepath.Dir(path) {
		t.Errorf("it works in %q, %v; want %q", o.build.Kubelet, err, filepath.Dir(path))
	}
	err := errors.Join(o.query(ask, &o.build), o.close())
	if want := "the oracle of kubelet v1.33.13 answers no more: EOF\nexit status 7"; err == nil || err.Error() != want {
		t.Errorf("got %v; want %s", err, want)
	}
}

// TestOracleRelease verifies that an oracle of the wrong release is rejected. For the right
// release, the GODEBUG defaults must be reported.
func TestOracleRelease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "oracle")
	const program = "#!/bin/sh\nread question\nprintf '{\"vector\": {\"kubelet\": \"v1.33.13\"}}'\nread question\nprintf '{\"vector\": [{\"name\": \"A\"}]}'\nread question || :\n"
	must.Do(t, os.WriteFile(path, []byte(program), 0o700))
	for version, want := range map[string]string{"v1.33.13": "", "v1.34.4": "it is built with v1.33.13"} {
		o := &kubeletProcess{version: version}
		must.Do(t, o.startProcess(t.Context(), path))
		err := o.queryBuild(&release.Release{Version: version, GODEBUG: "x=1"})
		if err == nil {
			if o.build.GODEBUG != "default=x=1" || len(o.gates) != 1 || o.gates[0].Name != "A" {
				t.Errorf("%s: got %+v, %+v", version, o.build, o.gates)
			}
			err = o.close()
		} else {
			_ = o.close()
		}
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: got %v, want %q", version, err, want)
		}
	}
}
