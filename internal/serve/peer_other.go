// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux && !darwin

package serve

import (
	"errors"
	"io/fs"
	"net"
)

// isSupported reports whether the service runs on this system. Here, the kernel does not report
// which user a client of a socket is.
const isSupported = false

func readPeer(*net.UnixConn) (*peer, error) { return nil, errors.ErrUnsupported }

func askerOf(*peer, bool) (processID, bool) { return processID{}, false }

func ownerOf(fs.FileInfo) (uint32, bool) { return 0, false }
