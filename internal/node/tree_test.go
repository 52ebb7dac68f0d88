// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package node

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/regcred/regcred/internal/must"
)

var update = flag.Bool("update", false, "write what is found as what is wanted")

// goldenDir is the name of the archive's file with the expected Setup in JSON.
const goldenDir = "setup.json"

// createNode creates a node's root directory from an archive. A file's name in the archive is
// its path on the node. A file type may precede the path: "link" (the content is the target),
// "fifo", "dir", "exec" (an executable), "crlf" (CRLF line endings), "closed" (mode 0) or
// "large" (a megabyte of text before the content).
func createNode(t *testing.T, archive *txtar.Archive) (root string) {
	t.Helper()
	root = newRoot(t, nil)
	for _, f := range archive.Files {
		kind, name, ok := strings.Cut(f.Name, " /")
		if name = "/" + name; !ok {
			kind, name = "file", f.Name
		}
		if name == goldenDir {
			continue
		}
		must.Do(t, createFile(filepath.Join(root, name), kind, f.Data))
	}
	return root
}

func createFile(at, kind string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	switch kind {
	case "link":
		return os.Symlink(strings.TrimSpace(string(data)), at)
	case "fifo":
		return syscall.Mkfifo(at, 0o644)
	case "dir":
		return os.MkdirAll(at, 0o755)
	case "exec":
		return os.WriteFile(at, data, 0o755)
	case "closed":
		return os.WriteFile(at, data, 0)
	case "large": // put a megabyte of other variables before the content
		data = append(bytes.Repeat([]byte("OTHER=\"some value\"\n"), 1<<20/19), data...)
	case "crlf":
		data = bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n"))
	}
	return os.WriteFile(at, data, 0o644)
}

func loadNodeTrees(t *testing.T) map[string]*txtar.Archive {
	t.Helper()
	files, err := filepath.Glob("testdata/nodes/*.txtar")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d trees: %v", len(files), err)
	}
	list := map[string]*txtar.Archive{}
	for _, file := range files {
		if list[file], err = txtar.ParseFile(file); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// TestNodeTrees compares the Setup of each node in testdata/nodes with the expected Setup.
func TestNodeTrees(t *testing.T) {
	for file, archive := range loadNodeTrees(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			if !bytes.Contains(archive.Comment, []byte("Source: ")) {
				t.Error("it does not say where it is from")
			}
			root := createNode(t, archive)
			s := must.Get(Node{Root: root, Foreign: true}.NewReader().Setup(t.Context()))(t)
			got := setupJSON(t, s, root)
			if *update {
				writeGolden(t, file, archive, got)
				return
			}
			for _, f := range archive.Files {
				if f.Name == goldenDir {
					if diff := cmp.Diff(string(f.Data), got); diff != "" {
						t.Errorf("-want +got\n%s", diff)
					}
					return
				}
			}
			t.Error("the expected Setup is missing: run with -update")
		})
	}
}

// setupJSON returns a Setup as JSON. It removes the root directory from paths.
func setupJSON(t *testing.T, s *Setup, root string) string {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	must.Do(t, e.Encode(s))
	return strings.ReplaceAll(b.String(), root, "")
}

func writeGolden(t *testing.T, file string, archive *txtar.Archive, got string) {
	t.Helper()
	out := &txtar.Archive{Comment: archive.Comment}
	for _, f := range archive.Files {
		if f.Name != goldenDir {
			out.Files = append(out.Files, f)
		}
	}
	out.Files = append(out.Files, txtar.File{Name: goldenDir, Data: []byte(got)})
	must.Do(t, os.WriteFile(file, txtar.Format(out), 0o644))
}
