// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package cluster has no code but tests: scenarios in which a real kubelet, a
// real runtime and a real API server, started by package node, pull images
// with this repository's plugins and beside this repository's keyring.
package cluster
