// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package process

import (
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
)

// TestDrainEnds checks that the pipes that a child process holds are closed when the limit expires,
// and not earlier.
func TestDrainEnds(t *testing.T) {
	for limit, want := range map[time.Duration]string{time.Millisecond: "cut off", time.Hour: "wrote everything"} {
		f := newTestPipes(t)
		p := must.Get(testCommand(t, "fork-writer", append(f.env, testStdout+"="+programOutput)...).startProgram(runLimits{ctx: t.Context()}))(t)
		if failed := p.writeAndWait(runLimits{ctx: t.Context()}, strings.NewReader("request")); failed != nil {
			t.Fatal(failed)
		}
		p.takeOutput()
		p.drainOutput(limit)
		f.readPIDs(t, 1)
		if limit < time.Hour {
			<-p.groupExited // the pipes are closed although the child is still running
		}
		f.resumeProgram(t)
		if line, _ := f.nextReport(t); line != want {
			t.Errorf("limit %v: the child reports %q, want %q", limit, line, want)
		}
		f.checkAllExited(t)
		<-p.groupExited
	}
}
