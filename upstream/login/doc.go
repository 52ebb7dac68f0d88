// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package login contains only tests. They compare internal/login with containerd's resolver, which
// is built with containerd2.mod, at a registry on loopback that generates challenges and responses of
// a token server. Both are compared by what they send and by the outcome.
//
// Documented differences, which are regcred's own rules:
//   - If the registry refuses a new token and requests another scope, regcred gets another token once.
//   - containerd repeats a refused request up to five times, with the same token or password.
//   - containerd sends the password on if the token server redirects POST to another host (307, 308),
//     and keeps the Authorization of GET for another port of the same host.
package login
