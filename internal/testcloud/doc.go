// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package testcloud simulates the clouds on loopback: the endpoints that this
// repository's plugins use, as HTTP servers with a request log and fault injection,
// and a proxy that maps their real host names to these servers.
//
// If an SDK reads the endpoints' addresses from the environment, the server's Environ
// has all variables needed to keep requests on this machine. If the host names are
// fixed, requests go through a [FakeNetwork]: a proxy that terminates TLS with its own CA.
//
//	net, err := testcloud.NewFakeNetwork()
//	defer net.Close()
//	net.Handle("sts.googleapis.com", server)
//	cmd.Environ = net.Environ()
//
// The servers are only for the process that started them.
package testcloud
