// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package compare contains only tests. They compare the unmodified kubelet with a kubelet of the
// same release that has regcred embedded. Each runs on its own node, with the same plugins,
// registry and runtime. The tests print the figures of docs/project/upstream.md.
//
// The plugins are sh scripts. A sleep simulates the network and the cloud.
package compare
