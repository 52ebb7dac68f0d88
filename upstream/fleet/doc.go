// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package fleet tests the chart (deploy/chart) on a cluster of two real nodes. The chart must roll
// out regcred, report its status, survive common cluster failures, and uninstall cleanly.
package fleet
