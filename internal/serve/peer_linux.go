// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"syscall"
	"unsafe"

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
		var cred *unix.Ucred
		if cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); failed != nil {
			return
		}
		p.pid, p.uid, p.gid = cred.Pid, cred.Uid, cred.Gid
		p.groups, failed = peerGroups(fd)
	})
	return p, errors.Join(err, failed)
}

// maxGroups is the kernel's limit of supplementary groups.
const maxGroups = 65536

// peerGroups returns the supplementary groups of a connection's client (SO_PEERGROUPS).
func peerGroups(fd uintptr) ([]uint32, error) {
	for size := uint32(32); ; size = maxGroups {
		groups := make([]uint32, size)
		length := size * 4
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&length)), 0)
		switch {
		case errno == 0:
			return groups[:length/4], nil
		case errno != unix.ERANGE || size == maxGroups:
			return nil, fmt.Errorf("read the client's groups: %w", errno)
		}
	}
}

// askerOf identifies the process that needs the credential. For a credential helper, this is the
// helper's parent, because a helper runs only once. It returns false if the process is unknown.
func askerOf(p *peer, parent bool) (asker processID, ok bool) {
	pid := int(p.pid)
	stat, ok := readStat(pid)
	if ok && parent {
		pid = stat.parent
		stat, ok = readStat(pid)
	}
	return processID{pid, stat.started}, ok
}

// procStat holds fields of /proc/PID/stat.
type procStat struct {
	parent  int
	started uint64 // since boot
}

func readStat(pid int) (s procStat, ok bool) {
	if pid <= 0 {
		return s, false
	}
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return s, false
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:]) // the program's name can contain anything
	if len(fields) < 20 {
		return s, false
	}
	s.parent, err = strconv.Atoi(string(fields[1]))
	if err != nil {
		return s, false
	}
	s.started, err = strconv.ParseUint(string(fields[19]), 10, 64)
	return s, err == nil
}

// ownerOf returns the user ID of a file's owner.
func ownerOf(info fs.FileInfo) (uid uint32, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return s.Uid, true
}
