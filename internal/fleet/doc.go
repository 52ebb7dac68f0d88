// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package fleet looks at the nodes of a cluster from outside: what the pods of the
// chart (package agent) say of each, and which of them have taken regcred off again.
package fleet
