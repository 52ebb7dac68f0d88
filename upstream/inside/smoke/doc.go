// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package smoke starts the kubelet of package inside on a node. It verifies that the kubelet pulls
// with a plugin's response, reports in a pod's events and status why a plugin fails, and reloads a
// changed configuration. Package compare measures that kubelet.
//
//	cd upstream && REGCRED_TEST_REQUIRE=inside,cluster go test -v ./inside/smoke
package smoke
