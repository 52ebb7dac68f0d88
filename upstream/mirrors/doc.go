// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package mirrors contains only tests. They compare the route that internal/containerd and
// internal/registriesconf report for a configuration with the requests that runtimes send.
//
// The runtimes are Debian's containerd 1.6, containerd 2 from its Go module (containerd2.mod), and
// Debian's skopeo. They pull from hosts on loopback, which record each request's path and
// credentials.
package mirrors
