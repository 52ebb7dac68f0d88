// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package layout

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/regcred/regcred/internal/must"
)

// TestBounds verifies the maximum sizes of oci-layout and index.json.
func TestBounds(t *testing.T) {
	for _, tt := range []struct {
		file, begin string
		max         int64
	}{
		{layoutFile, `{"imageLayoutVersion":"1.0.0"}`, maxLayoutFileSize},
		{indexFile, `{"manifests":[]}`, maxIndexSize},
	} {
		for _, more := range []int64{0, 1} {
			t.Run(fmt.Sprintf("%s, %d more", tt.file, more), func(t *testing.T) {
				dir := t.TempDir()
				l := must.Get(Open(dir))(t)
				defer l.Close()
				text := tt.begin + strings.Repeat(" ", int(tt.max+more)-len(tt.begin))
				must.Do(t, os.WriteFile(filepath.Join(dir, tt.file), []byte(text), 0o600))
				want := ""
				if more > 0 {
					want = fmt.Sprintf("larger than %d bytes", tt.max)
				}
				if err := CheckDir(t.Context(), dir); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("Check: got %v, want %q", err, want)
				}
				if tt.file != indexFile || more == 0 {
					return
				}
				if err := l.Tag(t.Context(), v1.Descriptor{}, "x"); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Name: got %v, want %q", err, want)
				}
			})
		}
	}
}
