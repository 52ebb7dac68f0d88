// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regularfile

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// TestNotRegular verifies that Read and ReadIn reject files that are not regular, and do not
// block on named pipes.
func TestNotRegular(t *testing.T) {
	dir := t.TempDir()
	pipe, socket, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "socket"), filepath.Join(dir, "link")
	must.Do(t, errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink("pipe", link)))
	l := must.Get(net.Listen("unix", socket))(t)
	defer l.Close()
	for path, want := range map[string]string{
		pipe: "a named pipe", link: "a named pipe", socket: "a socket", "/dev/zero": "a device", "/": "a directory",
	} {
		_, err := Read(t.Context(), path, 1)
		refused, ok := errors.AsType[*NotRegularError](err)
		if !ok || refused.Kind() != want {
			t.Errorf("%s: got %v, want an error that it is %s", path, err, want)
		}
	}
	root := must.Get(os.OpenRoot(dir))(t)
	defer root.Close()
	if _, err := ReadIn(t.Context(), root, "pipe", 1); errorText(BareError(err)) != "is a named pipe, not a regular file" {
		t.Errorf("got %v, want an error that it is a named pipe", err)
	}
}

// swappedFS is a file system in which a regular file is replaced with another file after Stat.
type swappedFS struct {
	osFS
	regular string
}

func (s swappedFS) Stat(string) (fs.FileInfo, error) { return os.Stat(s.regular) }

func TestFileReplacedByPipe(t *testing.T) {
	path, _ := writeFile(t, "")
	pipe := path + ".pipe"
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	_, err := open(swappedFS{regular: path}, pipe)
	if _, ok := errors.AsType[*NotRegularError](err); !ok {
		t.Errorf("got %v, want an error that it is a named pipe", err)
	}
}

// slowFS is a file system that does not respond until a channel is closed.
type slowFS struct {
	osFS
	until chan struct{}
}

func (s slowFS) Stat(name string) (fs.FileInfo, error) {
	<-s.until
	return os.Stat(name)
}

func TestSlowRead(t *testing.T) {
	why := errors.New("too slow")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	s := slowFS{until: make(chan struct{})}
	defer close(s.until)
	if _, err := read(ctx, s, "/", 1); !errors.Is(err, why) || errorText(err) != "read /: too slow" {
		t.Errorf("got %v, want %v", err, why)
	}
}
