// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package smoke starts the kubelet of package inside on a node, once: it pulls with
// what a plugin answers, says in a pod's events and status why one fails, and
// takes a changed configuration over. All that is measured of it is elsewhere.
//
//	cd upstream && REGCRED_TEST_REQUIRE=inside,cluster go test -v ./inside/smoke
package smoke
