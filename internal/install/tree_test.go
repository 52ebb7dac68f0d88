// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package install_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fileTree maps each path in a directory to the file's mode, owner and content.
type fileTree map[string]string

// volatileValues matches JSON values that differ between two runs of the same steps.
var volatileValues = regexp.MustCompile(`"(created|started|ticks)": ("[^"]*"|\d+)`)

func readTree(t testing.TB, root string) fileTree {
	t.Helper()
	list := fileTree{}
	err := filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(name)
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		text := ""
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			text, err = os.Readlink(name)
		case info.Mode().IsRegular():
			var data []byte
			data, err = os.ReadFile(name)
			text = volatileValues.ReplaceAllString(string(data), `"$1": 0`)
		}
		rel, _ := filepath.Rel(root, name)
		list["/"+rel] = fmt.Sprintf("%v %d:%d %s", info.Mode(), stat.Uid, stat.Gid, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// withoutPaths returns a tree without the named paths and everything below them.
func (l fileTree) withoutPaths(names ...string) fileTree {
	left := fileTree{}
next:
	for name, text := range l {
		for _, n := range names {
			if name == n || strings.HasPrefix(name, n+"/") {
				continue next
			}
		}
		left[name] = text
	}
	return left
}

// differences returns the differences between l and o, or "" if they are equal.
func (l fileTree) differences(o fileTree) string { return cmp.Diff(map[string]string(l), map[string]string(o)) }

// copyTree copies a directory. Hard links become separate files.
func copyTree(t testing.TB, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, name)
		at := filepath.Join(to, rel)
		info, err := os.Lstat(name)
		if err != nil {
			return err
		}
		switch {
		case info.IsDir():
			return errors.Join(os.MkdirAll(at, 0o700), os.Chmod(at, info.Mode().Perm()))
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			return os.Symlink(target, at)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return errors.Join(os.WriteFile(at, data, 0o600), os.Chmod(at, info.Mode().Perm()))
	})
	if err != nil {
		t.Fatal(err)
	}
}
