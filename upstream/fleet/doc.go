// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package fleet tests the chart (deploy/chart) on a cluster of two real nodes: that it
// rolls regcred out, reports, survives what happens to clusters, and leaves nothing.
package fleet
