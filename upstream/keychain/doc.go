// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package keychain compares regcred's adapter for go-containerregistry with k8schain's keychain of
// pull secrets, and with the kubelet's keyring.
package keychain
