// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package compare has no code but tests: a kubelet beside the same kubelet with
// regcred inside, each on a node of its own with the same plugins, registry and
// runtime. What they print are the figures of docs/project/upstream.md.
//
// A plugin is a script of sh here. Its sleep stands for the network and the cloud.
package compare
