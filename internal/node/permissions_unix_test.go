// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package node

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// TestCheckTrustLinks verifies that CheckTrust checks each symlink on a path and each directory
// on the path of the symlink's target.
func TestCheckTrustLinks(t *testing.T) {
	for _, tt := range []struct {
		name string
		make []string // "DIR/ MODE", "FILE MODE", "LINK -> TARGET"; the suffix " of somebody" means that another user owns the file
		want string   // the error: the rejected path and the reason
	}{
		{name: "plain", make: []string{"c.yaml 644"}},
		{name: "relative", make: []string{"a/ 755", "a/b/ 755", "real/ 755", "real/c.yaml 644", "a/b/l -> ../../real", "c.yaml -> a/b/l/c.yaml"}},
		{name: "absolute", make: []string{"real/ 755", "real/c.yaml 644", "c.yaml -> ROOT/real/c.yaml"}},
		{
			name: "a directory on the way of a target", make: []string{"open/ 777", "open/d/ 755", "open/d/c.yaml 644", "l -> open/d", "c.yaml -> l/c.yaml"},
			want: "open is writable by all users",
		},
		{
			name: "on the way there and back", make: []string{"open/ 777", "open/d/ 755", "real.yaml 644", "c.yaml -> open/d/../../real.yaml"},
			want: "open is writable by all users",
		},
		{
			name: "a directory in which a link is", make: []string{"open/ 777", "real.yaml 644", "open/l -> ../real.yaml", "c.yaml -> open/l"},
			want: "open is writable by all users",
		},
		{name: "our link in a sticky directory", make: []string{"tmp/ 1777", "real.yaml 644", "tmp/l -> ../real.yaml", "c.yaml -> tmp/l"}},
		{
			name: "somebody's link in a sticky directory", make: []string{"tmp/ 1777", "real.yaml 644", "tmp/l -> ../real.yaml of somebody", "c.yaml -> tmp/l"},
			want: "tmp/l is a symbolic link owned by user 12345",
		},
		{name: "somebody's sticky directory", make: []string{"tmp/ 1777 of somebody", "tmp/c.yaml 644", "c.yaml -> tmp/c.yaml"}, want: "tmp is owned by user 12345"},
		{name: "a loop", make: []string{"a -> b", "b -> a", "c.yaml -> a"}, want: "too many symbolic links"},
		{name: "a link to itself below itself", make: []string{"a -> a/a", "c.yaml -> a"}, want: "too many symbolic links"},
		{name: "an executable that is not there", make: []string{"c.yaml 644"}},
		{name: "one that anybody may put there", make: []string{"c.yaml 644", "bin/ 1777"}, want: "bin is writable by all users"},
		{name: "a configuration to which anybody may add", make: []string{"c.yaml/ 1777", "c.yaml/a.yaml 644"}, want: "c.yaml is writable by all users"},
		{name: "a directory as configuration", make: []string{"c.yaml/ 755", "c.yaml/a.yaml 644", "c.yaml/b.yaml 666"}, want: "c.yaml/b.yaml is writable by all users"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := newRoot(t, nil)
			must.Do(t, errors.Join(os.Mkdir(filepath.Join(root, "bin"), 0o755), createFiles(t, root, tt.make)))
			err := Node{Root: root}.CheckTrust(&Origin{From: "here", Config: filepath.Join(root, "c.yaml"), BinDir: filepath.Join(root, "bin")}, []string{"missing"})
			got := ""
			if err != nil {
				got = strings.ReplaceAll(err.Error(), root+"/", "")
			}
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// createFiles creates the files that lines describe, in the format of TestCheckTrustLinks.
func createFiles(t *testing.T, root string, lines []string) error {
	t.Helper()
	for _, line := range lines {
		line, theirs := strings.CutSuffix(line, " of somebody")
		if theirs && os.Geteuid() != 0 {
			t.Skip("needs root: it gives files to others")
		}
		name, target, link := strings.Cut(line, " -> ")
		var mode uint64
		if !link {
			var text string
			var err error
			name, text, _ = strings.Cut(line, " ")
			if mode, err = strconv.ParseUint(text, 8, 32); err != nil {
				return err
			}
		}
		path := filepath.Join(root, name)
		var err error
		switch {
		case link:
			err = os.Symlink(strings.ReplaceAll(target, "ROOT", root), path)
		case strings.HasSuffix(name, "/"):
			if err = os.Mkdir(path, 0o755); errors.Is(err, fs.ErrExist) {
				err = nil
			}
		default:
			err = os.WriteFile(path, nil, 0o644)
		}
		if err == nil && !link {
			err = syscall.Chmod(path, uint32(mode))
		}
		if err == nil && theirs {
			err = os.Lchown(path, 12345, 12345)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestCheckTrustBelowTheRoot verifies that CheckTrust does not check the parents of a node's
// root directory, but does check paths outside of it.
func TestCheckTrustBelowTheRoot(t *testing.T) {
	open := newRoot(t, nil)
	must.Do(t, createFiles(t, open, []string{"root/ 755", "root/c.yaml 644", "c.yaml 644"}))
	must.Do(t, os.Chmod(open, 0o777))
	n := Node{Root: filepath.Join(open, "root")}
	if err := n.CheckTrust(&Origin{From: "here", Config: filepath.Join(open, "root", "c.yaml")}, nil); err != nil {
		t.Errorf("below the root: got %v", err)
	}
	err := n.CheckTrust(&Origin{From: "here", Config: filepath.Join(open, "c.yaml")}, nil)
	if found, ok := errors.AsType[*UntrustedPathError](err); !ok || found.Path != open {
		t.Errorf("beside the root: got %v, want that %s is writable", err, open)
	}
}

// TestCheckTrustNotSeen verifies that CheckTrust returns an error for a path that it cannot
// check.
func TestCheckTrustNotSeen(t *testing.T) {
	root := newRoot(t, nil)
	err := Node{Root: root}.CheckTrust(&Origin{From: "here", Config: filepath.Join(root, strings.Repeat("x", 1000))}, nil)
	if !errors.Is(err, syscall.ENAMETOOLONG) {
		t.Errorf("got %v, want %v", err, syscall.ENAMETOOLONG)
	}
}
