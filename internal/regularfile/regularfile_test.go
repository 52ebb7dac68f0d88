// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regularfile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
)

// writeFile creates a file, and returns its path and an os.Root for its directory.
func writeFile(t *testing.T, data string) (path string, root *os.Root) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(path, []byte(data), 0o600))
	root = must.Get(os.OpenRoot(filepath.Dir(path)))(t)
	t.Cleanup(func() { root.Close() })
	return path, root
}

func TestRead(t *testing.T) {
	for name, tt := range map[string]struct {
		data  string
		max   int64
		cause string
	}{
		"empty":        {"", 0, ""},
		"smaller":      {"abc", 4, ""},
		"just as much": {"abcd", 4, ""},
		"one more":     {"abcde", 4, "larger than 4 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			path, root := writeFile(t, tt.data)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			outside, errOutside := Read(context.Background(), path, tt.max)
			inside, errInside := ReadIn(ctx, root, "file", tt.max)
			for _, err := range []error{errOutside, errInside} {
				if got := errorText(BareError(err)); got != tt.cause {
					t.Errorf("got error %q, want %q", got, tt.cause)
				}
				if large, ok := errors.AsType[*TooLargeError](err); ok && large.Max != tt.max {
					t.Errorf("got at most %d bytes, want %d", large.Max, tt.max)
				}
			}
			want := tt.data
			if tt.cause != "" {
				want = ""
			}
			if diff := cmp.Diff([]string{want, want}, []string{string(outside), string(inside)}); diff != "" {
				t.Errorf("content (-want +got):\n%s", diff)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestReadErrors(t *testing.T) {
	path, root := writeFile(t, "")
	dir := filepath.Dir(path)
	if err := os.Symlink(dir, filepath.Join(dir, "out")); err != nil {
		t.Skip(err)
	}
	_, err := Read(t.Context(), filepath.Join(dir, "none"), 1)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want an error that it is missing", err)
	}
	_, err = Read(t.Context(), dir, 1)
	if got, want := errorText(err), "read "+dir+": is a directory, not a regular file"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err = ReadIn(t.Context(), root, "out/file", 1); err == nil {
		t.Error("a link has led out of the directory")
	}
	if _, err = OpenIn(root, "."); errorText(BareError(err)) != "is a directory, not a regular file" {
		t.Errorf("got %v, want an error that it is a directory", err)
	}
}
