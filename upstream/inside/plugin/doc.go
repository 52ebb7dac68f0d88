// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package plugin replaces the kubelet's package k8s.io/kubernetes/pkg/credentialprovider/plugin
// with a [regcred.Keyring]. A kubelet built with it calls its image credential providers through
// regcred. Package inside, the parent directory, builds such a kubelet.
//
// It exports the names that the rest of the kubelet uses, with the same signatures. It adds
// [LookupErr] and [WithLookupErr], with which the error of a pull includes why a provider failed.
// The package is compiled as part of the module k8s.io/kubernetes, so it imports no internal
// package of this repository.
//
// Differences from the kubelet's own package: a changed configuration takes effect without a
// restart, providers run concurrently, and the Keyring's differences listed in
// docs/project/parity.md.
package plugin
