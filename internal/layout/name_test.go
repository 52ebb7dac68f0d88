// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package layout

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/regcred/regcred/internal/must"
)

// TestNameKeepsOtherEntries verifies that Tag replaces only a manifest with the same reference.
// It must keep other manifests and unknown fields in index.json.
func TestNameKeepsOtherEntries(t *testing.T) {
	dir := t.TempDir()
	l := must.Get(Open(dir))(t)
	defer l.Close()
	index := filepath.Join(dir, indexFile)
	const theirs = `{"schemaVersion":2,"x":"kept","manifests":[{"annotations":{"` + refNameAnnotation + `":"theirs"},"y":"kept"},{}]}`
	must.Do(t, os.WriteFile(index, []byte(theirs), 0o600))
	d := v1.Descriptor{Digest: v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("0", 64)}}
	must.Do(t, os.MkdirAll(filepath.Join(dir, filepath.FromSlash(blobsDir), "sha256"), 0o777))
	for _, name := range []string{"a", "b", "a"} {
		must.Do(t, l.Tag(t.Context(), d, name))
	}
	raw := must.Get(os.ReadFile(index))(t)
	var got struct {
		X         string
		Manifests []struct {
			Annotations map[string]string
			Y           string
		}
	}
	must.Do(t, json.Unmarshal(raw, &got))
	var names []string
	for _, m := range got.Manifests {
		names = append(names, m.Annotations[refNameAnnotation]+m.Y)
	}
	if list := strings.Join(names, ","); got.X != "kept" || list != "theirskept,,b,a" {
		t.Errorf("x is %q, the names are %q\n%s", got.X, list, raw)
	}
}

// TestCommitCloses verifies that commit closes the file. Otherwise, an image with thousands of
// blobs could exceed the limit for open files.
func TestCommitCloses(t *testing.T) {
	l := must.Get(Open(t.TempDir()))(t)
	defer l.Close()
	p := must.Get(l.newPending("x"))(t)
	must.Do(t, p.commit())
	if err := p.file.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed again: got %v, want %v", err, os.ErrClosed)
	}
}

// TestReplaceLeavesNothing verifies that replaceFile leaves no temporary file if it fails.
func TestReplaceLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	l := must.Get(Open(dir))(t)
	defer l.Close()
	must.Do(t, os.MkdirAll(filepath.Join(dir, "taken", "x"), 0o777))
	if err := l.replaceFile("taken", nil); err == nil {
		t.Error("a directory has been replaced")
	}
	if left, err := filepath.Glob(filepath.Join(dir, tempPrefix+"*")); err != nil || left != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}
