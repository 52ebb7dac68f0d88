// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package cluster contains only tests. They start a real kubelet, container runtime and API server
// with package node, and pull images with this repository's plugins. They also compare the kubelet
// with regcred's keyring.
package cluster
