// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package keychain sets regcred's adapter for go-containerregistry beside
// k8schain's keychain of pull secrets and the keyring of a kubelet.
package keychain
