// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build ignore

// Command k8schain is a minimal program that uses package k8schain, with three clouds and the
// cluster's pull secrets.
package main

import (
	"context"
	"os"

	"github.com/google/go-containerregistry/pkg/authn/k8schain"
	"github.com/google/go-containerregistry/pkg/name"
)

func main() {
	if len(os.Args) < 2 {
		return // the rest is linked into the program but never run
	}
	keychain, err := k8schain.NewInCluster(context.Background(), k8schain.Options{})
	if err != nil {
		os.Exit(1)
	}
	if tag, err := name.NewTag(os.Args[1]); err == nil {
		keychain.Resolve(tag)
	}
}
