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
)

// TestNameKeepsOtherEntries verifies that index.json keeps its other entries and unknown fields; only an entry with the
// same name is replaced.
func TestNameKeepsOtherEntries(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	index := filepath.Join(dir, indexFile)
	const theirs = `{"schemaVersion":2,"x":"kept","manifests":[{"annotations":{"` + refNameAnnotation + `":"theirs"},"y":"kept"},{}]}`
	if err := os.WriteFile(index, []byte(theirs), 0o600); err != nil {
		t.Fatal(err)
	}
	d := v1.Descriptor{Digest: v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("0", 64)}}
	if err := os.MkdirAll(filepath.Join(dir, filepath.FromSlash(blobsDir), "sha256"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "a"} {
		if err := l.Tag(t.Context(), d, name); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		X         string
		Manifests []struct {
			Annotations map[string]string
			Y           string
		}
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range got.Manifests {
		names = append(names, m.Annotations[refNameAnnotation]+m.Y)
	}
	if list := strings.Join(names, ","); got.X != "kept" || list != "theirskept,,b,a" {
		t.Errorf("x is %q, the names are %q\n%s", got.X, list, raw)
	}
}

// TestCommitCloses verifies that no file of an image with thousands of blobs stays open.
func TestCommitCloses(t *testing.T) {
	l, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p, err := l.newPending("x")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.commit(); err != nil {
		t.Fatal(err)
	}
	if err := p.file.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed again: got %v, want %v", err, os.ErrClosed)
	}
}

// TestReplaceLeavesNothing of what did not get its name.
func TestReplaceLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.MkdirAll(filepath.Join(dir, "taken", "x"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := l.replaceFile("taken", nil); err == nil {
		t.Error("a directory has been replaced")
	}
	if left, err := filepath.Glob(filepath.Join(dir, tempPrefix+"*")); err != nil || left != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}
