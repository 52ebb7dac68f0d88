// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package secretfile

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/textfmt"
)

func writeFile(t *testing.T, path, text string, mode fs.FileMode) string {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), mode))
	if err := os.Chmod(path, mode); err != nil { // independent of the umask
		t.Fatal(err)
	}
	return path
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		name     string
		mode     fs.FileMode
		exposed  bool
		writable bool
	}{
		{"private", 0o600, false, false},
		{"group", 0o660, false, false},
		{"readable", 0o604, true, false},
		{"writable", 0o602, true, true},
		{"of $(everybody)", 0o666, true, true},
	} {
		path := writeFile(t, filepath.Join(dir, tt.name), canary.PasswordSecret, tt.mode)
		link := filepath.Join(dir, tt.name+"-link")
		must.Do(t, os.Symlink(path, link))
		for _, path := range []string{path, link} {
			files, err := Read(path)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			f := files[0]
			if string(f.Data) != canary.PasswordSecret || f.Path != path || f.Exposed != tt.exposed || f.Writable != tt.writable {
				t.Errorf("%s: exposed %v, writable %v, or other content or path", path, f.Exposed, f.Writable)
			}
			wantRefusal(t, f.CheckNotExposed(), tt.exposed, fmt.Sprintf("%q: other users can read or change it; run chmod 600 %s", path, textfmt.QuoteShellPath(path)))
			wantRefusal(t, f.CheckNotWritable(), tt.writable, fmt.Sprintf("%q: other users can change it; run chmod o-w %s", path, textfmt.QuoteShellPath(path)))
		}
	}
}

func wantRefusal(t *testing.T, err error, refused bool, want string) {
	t.Helper()
	if (err != nil) != refused || refused && err.Error() != want {
		t.Errorf("error %v, want %q: %v", err, want, refused)
	}
}

func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	must.Do(t, syscall.Mkfifo(path("fifo"), 0o600))
	socket := must.Get(net.Listen("unix", path("socket")))(t)
	defer socket.Close()
	os.Symlink("nothing", path("dangling"))
	writeFile(t, path("big"), strings.Repeat("x", MaxSize+1), 0o600)
	writeFile(t, path("full"), strings.Repeat("x", MaxSize), 0o600)
	for _, tt := range []struct{ name, want string }{
		{"missing", "no such file or directory"},
		{"dangling", "no such file or directory"},
		{".", "is a directory, not a regular file"},
		{"fifo", "is a named pipe, not a regular file"},
		{"socket", "is a socket, not a regular file"},
		{"/dev/null", "is a device, not a regular file"},
		{"big", "larger than 1048576 bytes; check that this is the right file"},
		{"full", ""},
	} {
		file := path(tt.name)
		if filepath.IsAbs(tt.name) {
			file = tt.name
		}
		_, err := Read(file)
		if got := fmt.Sprint(err); err != nil && (!strings.HasPrefix(got, fmt.Sprintf("%q", file)) || !strings.HasSuffix(got, tt.want)) || (err == nil) != (tt.want == "") {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
	if _, err := Read(path("missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a missing file is not an fs.ErrNotExist")
	}
}

func TestReadUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read everything; on Linux, TestReadUnreadableAsRoot does it without that right")
	}
	path := writeFile(t, filepath.Join(t.TempDir(), "f"), "", 0)
	if _, err := Read(path); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("error %v", err)
	}
}

// TestReadPairAtomically replaces a directory during reads, as a kubelet updates a mounted secret.
// It verifies that user name and password are always from the same version.
func TestReadPairAtomically(t *testing.T) {
	dir := t.TempDir()
	swap := func(i int) {
		version, next := filepath.Join(dir, fmt.Sprint(i)), filepath.Join(dir, "next")
		text := []byte(fmt.Sprint(i))
		if err := errors.Join(
			os.Mkdir(version, 0o700),
			os.WriteFile(filepath.Join(version, "username"), text, 0o600),
			os.WriteFile(filepath.Join(version, "password"), text, 0o600),
			os.Symlink(filepath.Base(version), next), os.Rename(next, filepath.Join(dir, "data")),
			os.RemoveAll(filepath.Join(dir, fmt.Sprint(i-1))),
		); err != nil {
			t.Error(err)
		}
	}
	swap(0)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
				swap(i)
			}
		}
	}()
	defer func() {
		close(stop)
		<-stopped
	}()
	complete := 0
	for range 2000 {
		files, err := Read(filepath.Join(dir, "data/password"), filepath.Join(dir, "data/username"))
		if err != nil {
			if !errors.Is(err, errReplaced) && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
			continue
		}
		complete++
		if got, want := string(files[0].Data), string(files[1].Data); got != want {
			t.Fatalf("password of version %s with user name of version %s", got, want)
		}
	}
	if complete == 0 {
		t.Error("the files were never read")
	}
	t.Logf("%d of 2000 reads were complete while the files were swapped without a pause", complete)
}

func TestFileIsNotPrinted(t *testing.T) {
	f := File{Path: "p", Data: []byte(canary.PasswordSecret)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		canary.AssertAbsent(t, verb, fmt.Sprintf(verb+" "+verb+" "+verb, f, &f, []File{f}))
	}
}
