// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package inside

import (
	"os"
	"strings"
	"testing"
)

// TestBuildIntoDirectory: a path at which no kubelet can be is refused at once.
func TestBuildIntoDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := Build(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("got %v, want it refused as a directory", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%d files were written, %v", len(entries), err)
	}
}
