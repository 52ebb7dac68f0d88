// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package testcloud is the clouds on loopback: the endpoints that the plugins
// of this repository ask, as real HTTP servers that record what they are asked
// and fail when told to, and a little internet in which they have the names
// that they have in the world.
//
// A cloud whose SDK takes the addresses of its endpoints from the environment
// is served as it is; its Environ has all the variables that are needed for
// nothing to leave the machine. One whose names are fixed is reached through
// the [Net]: a proxy that ends TLS with certificates of its own authority.
//
//	net, err := testcloud.NewNet()
//	defer net.Close()
//	net.Handle("sts.googleapis.com", server)
//	cmd.Environ = net.Environ()
//
// Nothing here is meant to serve anybody but the process that started it.
package testcloud
