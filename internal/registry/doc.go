// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package registry describes registry hosts: their clouds and services, the names of Docker Hub,
// and mirrors. It also defines how a plugin responds for hosts that it does not serve. The package
// does not connect to registries and imports no plugin.
package registry

import "net/netip"

// Names of Docker Hub.
const (
	DockerHub          = "docker.io"                   // in image references
	DockerHubServer    = "registry-1.docker.io"        // the host that serves the registry API
	DockerHubIndex     = "index.docker.io"             // used in old references and configurations
	DockerHubConfigKey = "https://index.docker.io/v1/" // docker's key in config.json
)

// IsLoopback reports whether host, without a port, is localhost or a loopback
// address.
func IsLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}
