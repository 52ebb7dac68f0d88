// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package plugin is the kubelet's package k8s.io/kubernetes/pkg/credentialprovider/plugin
// with a [regcred.Keyring] in it. A kubelet that is built with this package in the
// place of that one asks its image credential providers through regcred; see
// package inside, one directory up, which builds it.
//
// It has the exported names that the rest of the kubelet uses, with the same
// signatures, and two more, [LookupErr] and [WithLookupErr], by which the reason
// of a failing provider reaches the error of the pull. It is compiled as
// part of the module k8s.io/kubernetes, so it imports no internal package of
// this repository.
//
// What is different from the kubelet's own package: a change of the
// configuration takes effect without a restart; providers run side by side;
// and what docs/project/parity.md lists for a Keyring.
package plugin
