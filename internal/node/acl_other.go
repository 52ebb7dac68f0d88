// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix && !linux

package node

// hasACL returns false. Well-known paths exist only on Linux nodes, so access control lists of
// other systems do not matter.
func hasACL(string) bool { return false }
