// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package inside builds the kubelet of the release pinned in go.mod with regcred embedded. regcred
// replaces the kubelet's package pkg/credentialprovider/plugin. Use it to try the Keyring in a
// kubelet and to compare the two implementations.
//
//	cd upstream && go run ./inside/build -o /tmp/kubelet
//
// The go command does not support overlays of files in the module cache. Build therefore copies the
// parts of the module k8s.io/kubernetes that a kubelet needs. It puts package plugin (a
// subdirectory) into the copy and changes one file with [PatchImageManager]. Then it passes go
// build a go.mod that replaces the module with the copy. This repository contains no Kubernetes
// sources.
package inside
