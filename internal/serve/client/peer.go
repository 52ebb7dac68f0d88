// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package client

import (
	"fmt"
	"net"
	"os"
)

// checkServer returns an error unless root or this user created the socket. Another user's server
// would get the request's token, and could return its own credentials.
func checkServer(c *net.UnixConn) error {
	uid, err := serverUID(c)
	if err != nil {
		return fmt.Errorf("read the owner of the socket: %w", err)
	}
	if uid != 0 && int64(uid) != int64(os.Geteuid()) {
		return fmt.Errorf("user %d created the socket; it must be root or this user", uid)
	}
	return nil
}
