// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package lint

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
)

func TestBinary(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(content), mode))
		return path
	}
	for name, tt := range map[string]struct {
		path string
		want []string
	}{
		"good":           {write("good", "#!/bin/sh\n", 0o755), nil},
		"missing":        {filepath.Join(dir, "missing"), []string{"missing-binary"}},
		"a directory":    {dir, []string{"not-a-file"}},
		"not executable": {write("plain", "#!/bin/sh\n", 0o644), []string{"not-executable"}},
		"two faults":     {write("text", "hello", 0o644), []string{"not-executable", "not-a-program"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range Binary(tt.path) {
				got = append(got, caseName(f))
				if f.File != tt.path || f.Message == "" || f.Severity == "" || f.Provider != "" {
					t.Errorf("got %+v", f)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
