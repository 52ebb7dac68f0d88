// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix && !linux

package node

// hasACL returns false, because well-known paths exist only on Linux nodes.
func hasACL(string) bool { return false }
