// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regcred/regcred/internal/agent"
	"github.com/regcred/regcred/internal/hostrun"
)

// failingRunner is a runner that returns an error. It records the output file of each command.
type failingRunner struct {
	why         error
	outputFiles []string
}

func (f *failingRunner) Run(_ context.Context, c hostrun.Command, _, _ io.Writer) (int, error) {
	f.outputFiles = append(f.outputFiles, filepath.ToSlash(c.OutputFile))
	return 0, f.why
}

// TestResponseFileIsKept verifies that the result of a change is stored in the file that the
// next container reads. Results of read-only commands must not be stored.
func TestResponseFileIsKept(t *testing.T) {
	r := &failingRunner{why: fs.ErrClosed}
	h := agent.NewSystemdHost(r, agent.Options{WorkDir: "/pod"}, "/node/work", nil)
	for _, args := range [][]string{{"install", "c"}, {"uninstall"}, {"status"}, {"install", "c", "--dry-run"}} {
		if _, _, err := h.Run(t.Context(), args...); !errors.Is(err, fs.ErrClosed) {
			t.Fatal(err)
		}
	}
	if got := strings.Join(r.outputFiles, ","); got != "/pod/answer.json,/pod/answer.json,," {
		t.Errorf("kept: %s", got)
	}
}

// TestUnreachableNode verifies the phases of a node on which regcred cannot be run. Only a
// node without systemd is unsupported. All other errors are failures, so that a broken chart
// is not reported as a successful install or uninstall.
func TestUnreachableNode(t *testing.T) {
	for name, tt := range map[string]struct {
		why             error
		present, absent agent.Phase
	}{
		"no systemd":           {&hostrun.NoSystemdError{Socket: "/run/systemd/private", Err: fs.ErrNotExist}, agent.PhaseUnsupported, agent.PhaseRemoved},
		"not mounted":          {&hostrun.NotMountedError{Dir: "/run/systemd", Err: fs.ErrNotExist}, agent.PhaseFailed, agent.PhaseNotRemoved},
		"no answer":            {&hostrun.NotRespondingError{Socket: "/run/systemd/private", Err: fs.ErrNotExist}, agent.PhaseFailed, agent.PhaseNotRemoved},
		"not for this process": {&hostrun.PermissionError{UID: 65532, Err: fs.ErrPermission}, agent.PhaseFailed, agent.PhaseNotRemoved},
	} {
		for state, want := range map[string]agent.Phase{"present": tt.present, "absent": tt.absent} {
			t.Run(name+", "+state, func(t *testing.T) {
				p := newPod(t, nil)
				p.writeFile(t, "state/state", state)
				p.Host = agent.NewSystemdHost(&failingRunner{why: tt.why}, p.Options, "/node/work", io.Discard)
				synctest.Test(t, func(t *testing.T) { p.runFor(t, 20*time.Minute) })
				if s := p.lastStatus(t); s.Phase != want || !strings.Contains(s.Reason, tt.why.Error()) {
					t.Errorf("got %+v, want %s", s, want)
				}
			})
		}
	}
}
