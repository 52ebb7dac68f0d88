// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package agent runs in a pod of the chart (deploy/chart) on each node. It installs what
// the chart specifies, checks the node regularly, and reports the node's state in a
// readiness probe, in its log and as metrics.
//
// The agent does not change the node itself: the node's systemd runs "regcred install",
// "status" and "uninstall" (package hostrun). So a pod that is killed interrupts no
// change, and needs only access to systemd.
package agent
