// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package mirrors has no code but tests: what internal/containerd and
// internal/registriesconf say of a configuration is held against what runtimes do
// with it. Debian's containerd 1.6, containerd 2 from its Go module (containerd2.mod)
// and Debian's skopeo pull from hosts on loopback that write down who asked which
// path and was shown what.
package mirrors
