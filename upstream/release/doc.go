// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package release builds programs of a Kubernetes release, and programs of this module, with the
// dependencies of that release. These are the versions of its libraries, which affect its behavior,
// and the GODEBUG defaults of its Go version.
//
// The package derives the required go.mod from the release's own go.mod, so that no copy can get
// out of date. Programs of this module that are built this way may only import Kubernetes and the
// standard library.
//
//	r, err := release.OpenRelease(ctx, "1.33.13")
//	err = r.Build(ctx, "kubelet", "k8s.io/kubernetes/cmd/kubelet")
package release
