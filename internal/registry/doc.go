// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package registry holds what is known about registry hosts: which hosts belong
// to which cloud or service, the names of Docker Hub, mirrors, and how a
// plugin responds for hosts that it does not serve. It contacts no registry and
// links no plugin.
package registry

import "net/netip"

// The names of Docker Hub.
const (
	Hub       = "docker.io"                   // in image references
	HubServer = "registry-1.docker.io"        // the host that serves the registry API
	HubIndex  = "index.docker.io"             // in old references and configurations
	HubKey    = "https://index.docker.io/v1/" // docker's key in config.json
)

// IsLoopback reports whether host, without a port, is localhost or a loopback
// address.
func IsLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}
