// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package agent is what a pod of the chart (deploy/chart) does on its node: it has
// the node given what the chart says, looks now and then whether that is still so,
// and says how the node stands, to the kubelet's probe, in its log and as metrics.
//
// It changes nothing itself. Whatever happens to the node is done by regcred on the
// node, as a person would run it there: "regcred install", "status" and "uninstall",
// which the node's systemd is asked to start (package hostrun). So a pod that is
// killed breaks nothing off, and needs no right but to ask systemd.
package agent
