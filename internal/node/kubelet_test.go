// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProcError(t *testing.T) {
	tests := []struct {
		name  string
		cause error
		euid  int
		hint  string
	}{
		{"permission of root", fs.ErrPermission, 0, "root lacks CAP_SYS_PTRACE here: run regcred on the node itself, not in a container"},
		{"permission", fs.ErrPermission, 1000, "only root and the kubelet's own user can read the kubelet's environment: use sudo"},
		{"gone", fs.ErrNotExist, 1000, "no such process; omit =PID to find the kubelet automatically"},
		{"other", errors.New("input/output error"), 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := procError(17, &fs.PathError{Op: "open", Path: "/proc/17/environ", Err: tt.cause}, tt.euid)
			hint := ""
			if e, ok := errors.AsType[*HintError](err); ok {
				hint = e.Hint
			}
			if hint != tt.hint {
				t.Errorf("hint %q, want %q", hint, tt.hint)
			}
			if want := "--as-kubelet: read process 17: open /proc/17/environ: " + tt.cause.Error(); err.Error() != want {
				t.Errorf("got %q, want %q", err, want)
			}
		})
	}
}

func TestSplitNUL(t *testing.T) {
	tests := []struct {
		name, in string
		want     []string
	}{
		{"empty", "", []string{}},
		{"one", "a=b\x00", []string{"a=b"}},
		{"two", "a=b\x00c=d\x00", []string{"a=b", "c=d"}},
		{"an empty argument", "kubelet\x00\x00x\x00", []string{"kubelet", "", "x"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := splitNUL(tt.in)
			if diff := cmp.Diff(tt.want, got); diff != "" || got == nil {
				t.Errorf("nil: %v; -want +got\n%s", got == nil, diff)
			}
		})
	}
}
