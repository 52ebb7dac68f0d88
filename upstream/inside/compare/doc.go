// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package compare contains only tests. They compare the unmodified kubelet with the same
// kubelet with regcred inside, each on its own node with the same plugins, registry and
// runtime. They print the figures of docs/project/upstream.md.
//
// The plugins are sh scripts; a sleep simulates the network and the cloud.
package compare
