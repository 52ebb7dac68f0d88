// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package cluster contains only tests. They start a real kubelet, container runtime and
// API server with package node, pull images with this repository's plugins, and compare
// the kubelet with this repository's keyring.
package cluster
