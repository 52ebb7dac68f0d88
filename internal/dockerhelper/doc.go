// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package dockerhelper maps docker's credential-helper protocol to a keyring:
// it parses server names, and lists the hosts for which a client can use the
// helper.
package dockerhelper
