// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regcred/regcred/internal/agent"
	"github.com/regcred/regcred/internal/must"
)

// TestReady verifies the result of the readiness probe for each phase, and for an agent that
// hangs.
func TestReady(t *testing.T) {
	for name, tt := range map[string]struct {
		answers commandResponses
		later   time.Duration
		ready   bool
		line    string // prefix of the line
	}{
		"installed":      {commandResponses{"install": {installed}, "status": {clean}}, 0, true, "node n1: installed"},
		"not long ago":   {commandResponses{"install": {installed}, "status": {clean}}, 5 * time.Minute, true, "node n1: installed"},
		"too long ago":   {commandResponses{"install": {installed}, "status": {clean}}, 5*time.Minute + time.Second, false, "node n1: installed, as of 2000-01-01T00:00:00Z: the next check by regcred agent run was due by 2000-01-01T00:05:00Z"},
		"failed":         {commandResponses{"install": {broken}, "status": {notInstalled}}, 0, false, "node n1: failed: theirs: it is no executable"},
		"unsupported":    {commandResponses{"install": {refused}, "status": {notInstalled}}, 0, true, "node n1: unsupported: cannot install on this node (talos)"},
		"applying":       {commandResponses{"install": {"hangs"}}, 47 * time.Minute, false, "node n1: applying: an install is running"},
		"applying, late": {commandResponses{"install": {"hangs"}}, 53 * time.Minute, false, "node n1: applying, as of "},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t, tt.answers)
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				p.runFor(t, time.Second)
				ready, line := agent.IsReady(t.Context(), p.WorkDir, begin.Add(tt.later))
				if ready != tt.ready || !strings.HasPrefix(line, tt.line) || len(line) > 1024 || strings.Contains(line, "\n") {
					t.Errorf("%v, %q; want %v, %q", ready, line, tt.ready, tt.line)
				}
			})
		})
	}
}

// TestReadyWithoutAgent verifies that a pod is not ready if the status file is missing or was
// not written by the agent.
func TestReadyWithoutAgent(t *testing.T) {
	for name, tt := range map[string]struct{ content, line string }{
		"none":    {"", "starting: nothing has been changed yet"},
		"half":    {`{"schemaVersion":1,"phase":"inst`, "not written by regcred agent run"},
		"later":   {`{"schemaVersion":2,"phase":"installed","until":"2999-01-01T00:00:00Z"}`, "not written by regcred agent run"},
		"another": {`{}`, "not written by regcred agent run"},
	} {
		dir := t.TempDir()
		if tt.content != "" {
			must.Do(t, os.WriteFile(filepath.Join(dir, "status.json"), []byte(tt.content), 0o600))
		}
		if ready, line := agent.IsReady(t.Context(), dir, time.Now()); ready || !strings.HasSuffix(line, tt.line) {
			t.Errorf("%s: %v, %q", name, ready, line)
		}
	}
}
