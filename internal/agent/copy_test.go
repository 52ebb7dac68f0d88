// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/agent"
	"github.com/regcred/regcred/internal/must"
)

// TestCopy verifies that CopyExecutables copies all files or none, with mode 0755.
func TestCopy(t *testing.T) {
	from := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(from, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(content), mode))
		return path
	}
	a, b := write("a", "#!/a", 0o600), write("b", "#!/b", 0o700)
	link := filepath.Join(from, "link")
	must.Do(t, os.Symlink("a", link))
	pipe := filepath.Join(from, "pipe")
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	for name, tt := range map[string]struct {
		files []string
		want  map[string]string
		fails string // suffix of the error
	}{
		"two":         {[]string{a, b}, map[string]string{"a": "-rwxr-xr-x #!/a", "b": "-rwxr-xr-x #!/b"}, ""},
		"link":        {[]string{link}, map[string]string{"link": "-rwxr-xr-x #!/a"}, ""},
		"directory":   {[]string{a, from}, map[string]string{}, from + ": is a directory, not a regular file"},
		"pipe":        {[]string{a, pipe}, map[string]string{}, pipe + ": is a named pipe, not a regular file"},
		"missing":     {[]string{a, from + "/c"}, map[string]string{}, from + "/c: no such file or directory"},
		"text":        {[]string{write("README", "hello", 0o700)}, map[string]string{}, "README: not a Linux executable"},
		"empty":       {[]string{write("empty", "", 0o700)}, map[string]string{}, "empty: it is empty"},
		"of one name": {[]string{a, write("x/a", "#!/x", 0o700)}, map[string]string{}, ": " + a + " has the same file name"},
	} {
		t.Run(name, func(t *testing.T) {
			to := t.TempDir()
			for range 2 { // an init container may run twice
				err := agent.CopyExecutables(t.Context(), tt.files, to)
				if (err == nil) != (tt.fails == "") || err != nil && !strings.HasSuffix(err.Error(), tt.fails) {
					t.Errorf("got %v, want %q", err, tt.fails)
				}
				if diff := cmp.Diff(tt.want, readTree(t, to)); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			}
		})
	}
	if err := agent.CopyExecutables(t.Context(), []string{a}, b); err == nil || !strings.HasSuffix(err.Error(), "b: not a directory") {
		t.Errorf("into a file: %v", err)
	}
	if err := agent.CopyExecutables(t.Context(), []string{a}, from+"/none"); err == nil || !strings.HasSuffix(err.Error(), "none: no such file or directory") {
		t.Errorf("into nothing: %v", err)
	}
}
