// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package inside builds the kubelet of the release that go.mod pins, with regcred
// in the place of its package pkg/credentialprovider/plugin, for those who want to
// see the Keyring where it was made for, and to measure one against the other.
//
//	cd upstream && go run ./inside/build -o /tmp/kubelet
//
// The go command takes no overlay of files in the module cache. So what a kubelet
// needs of the module k8s.io/kubernetes is copied, package plugin below this one
// is put into the copy, one file is changed by [Patch], and a module file that
// replaces the module by the copy is given to go build. Nothing of Kubernetes is
// kept in this repository.
package inside
