// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package serve

import (
	"errors"
	"io/fs"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// isSupported reports whether the service runs on this system.
const isSupported = true

// readPeer returns the credentials that the kernel recorded when the client connected.
func readPeer(c *net.UnixConn) (*peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	p, failed := &peer{}, error(nil)
	err = raw.Control(func(fd uintptr) {
		var cred *unix.Xucred
		if cred, failed = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED); failed != nil {
			return
		}
		p.uid = cred.Uid
		if n := min(int(cred.Ngroups), len(cred.Groups)); n > 0 {
			p.gid, p.groups = cred.Groups[0], cred.Groups[1:n:n]
		}
		pid, err := unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID)
		p.pid, failed = int32(pid), err
	})
	return p, errors.Join(err, failed)
}

// askerOf identifies the process that needs the credential. The parent of a process is not
// determined on this system, so all credential helpers of a user count as one process.
func askerOf(p *peer, parent bool) (asker processID, ok bool) {
	return processID{int(p.pid), 0}, !parent
}

// ownerOf returns the user ID of a file's owner.
func ownerOf(info fs.FileInfo) (uid uint32, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return s.Uid, true
}
