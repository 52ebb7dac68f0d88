// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package release builds programs of a release of Kubernetes, and of this
// module beside it, with what that release itself is built with: the versions
// of its libraries, which are part of how it behaves, and the GODEBUG defaults
// of its Go.
//
// A module file for that is made from the release's own, so that nothing is
// kept here that could differ from it. Programs of this module that are built
// so may import Kubernetes and the standard library alone.
//
//	r, err := release.Open(ctx, "1.33.13")
//	err = r.Build(ctx, "kubelet", "k8s.io/kubernetes/cmd/kubelet")
package release
