// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"errors"
	"testing"

	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/install"
	"github.com/regcred/regcred/internal/report"
)

// TestReportOfRestartOnly checks that the report of a restart without other changes names the
// current generation.
func TestReportOfRestartOnly(t *testing.T) {
	p := &install.Plan{From: &generation.Manifest{Number: 3, Previous: 2}, To: &generation.Manifest{Previous: 3}, UpToDate: true, Restart: []string{"it has no entry"}}
	if r := newChangeReport(p, false, nil); r.Outcome != report.ChangeRepaired || r.Generation != 3 || r.Previous != 2 {
		t.Errorf("got %+v", r)
	}
	if r := newChangeReport(p, true, nil); r.Outcome != report.ChangePlanned || r.Generation != 0 {
		t.Errorf("a dry run: %+v", r)
	}
}

// TestReportOfUselessRestart checks that the JSON report of a failed change states whether the
// kubelet was restarted.
func TestReportOfUselessRestart(t *testing.T) {
	for _, err := range []error{errors.New("the disk is full"), &install.RestartedError{Err: errors.New("no new kubelet that works")}} {
		var r report.Change
		markFailed(&r, err)
		_, want := errors.AsType[*install.RestartedError](err)
		if r.Outcome != report.ChangeFailed || r.Error != err.Error() || r.Restarted != want {
			t.Errorf("%v: got %+v", err, r)
		}
	}
}
