// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package dockerhelper is what docker's credential-helper protocol makes of a
// keyring: server names as clients send them, and the hosts for which a client
// asks a helper at all.
package dockerhelper
