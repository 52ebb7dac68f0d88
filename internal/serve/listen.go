// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/coreos/go-systemd/v22/activation"

	"github.com/regcred/regcred/internal/flock"
)

// ErrUnsupported means that the service does not run on this operating system.
var ErrUnsupported = errors.New("the credential service is not supported on this operating system, because it cannot identify the clients of a unix socket")

// Listen returns the socket that systemd passed to this process (LISTEN_FDS). Without one,
// it creates a socket at path. release removes the lock on the path.
//
// Listen replaces the socket of a process that was killed. It returns an error if another process
// serves the path, or if another user can replace files in the directory.
func Listen(path string, allow AllowList) (l *net.UnixListener, release func(), err error) {
	if !isSupported {
		return nil, nil, ErrUnsupported
	}
	passed, err := activation.Listeners()
	if err != nil {
		return nil, nil, fmt.Errorf("use the socket from systemd: %w", err)
	}
	switch len(passed) {
	case 0:
		return listenAt(path, allow)
	case 1:
		if l, ok := passed[0].(*net.UnixListener); ok {
			return l, func() {}, nil
		}
	}
	return nil, nil, fmt.Errorf("use the socket from systemd: want one unix stream socket, got %d sockets", len(passed))
}

// listenAt creates a socket. Users in the AllowList can reach it only if the modes of the socket and
// its directory permit it, so these are wider if the list is not empty. The service checks each client.
func listenAt(path string, allow AllowList) (l *net.UnixListener, release func(), err error) {
	dirMode, mode := fs.FileMode(0o700), fs.FileMode(0o600)
	if !allow.isEmpty() {
		dirMode, mode = 0o755, 0o666
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, nil, fmt.Errorf("create the directory of the socket: %w", err)
	}
	if err := checkSocketDir(dir); err != nil {
		return nil, nil, err
	}
	if !allow.isEmpty() {
		if err := os.Chmod(dir, dirMode); err != nil {
			return nil, nil, fmt.Errorf("make the socket accessible: %w", err)
		}
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("lock the socket: %w", err)
	}
	if held, err := flock.TryLock(lock); !held && !errors.Is(err, errors.ErrUnsupported) {
		lock.Close()
		if err != nil {
			return nil, nil, fmt.Errorf("lock the socket: %w", err)
		}
		return nil, nil, fmt.Errorf("%s: another process already serves this socket", path)
	}
	if l, err = replaceSocket(path, mode); err != nil {
		lock.Close()
		return nil, nil, err
	}
	return l, func() { lock.Close() }, nil
}

// checkSocketDir returns an error unless dir is a directory in which only root and this user can
// replace files.
func checkSocketDir(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("check the directory of the socket: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s: the socket's directory must be a directory, not a symlink", dir)
	}
	if uid, ok := ownerOf(info); ok && uid != 0 && int64(uid) != int64(os.Geteuid()) {
		return fmt.Errorf("%s: the socket's directory belongs to user %d; it must belong to root or this user", dir, uid)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s: other users can write to the socket's directory (mode %04o)", dir, info.Mode().Perm())
	}
	return nil
}

// connectTimeout limits the check for a process that serves the socket without a lock, such as systemd.
const connectTimeout = time.Second

// replaceSocket creates a socket. It removes a socket that no process serves.
func replaceSocket(path string, mode fs.FileMode) (*net.UnixListener, error) {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("check the socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s: a file that is not a socket is in the way", path)
	default:
		if c, err := net.DialTimeout("unix", path, connectTimeout); err == nil {
			c.Close()
			return nil, fmt.Errorf("%s: another process already serves this socket", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove the socket of a process that has ended: %w", err)
		}
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("create the socket: %w", err)
	}
	if err := os.Chmod(path, mode); err != nil {
		l.Close()
		return nil, fmt.Errorf("set the mode of the socket: %w", err)
	}
	return l, nil
}
