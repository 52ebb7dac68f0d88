// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build ignore

// Command helpers is a minimal program with the keychains of three clouds, like most programs that
// use go-containerregistry.
package main

import (
	"io"
	"os"

	"github.com/awslabs/amazon-ecr-credential-helper/ecr-login"
	"github.com/chrismellard/docker-credential-acr-env/pkg/credhelper"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/google"
)

func main() {
	keychain := authn.NewMultiKeychain(google.Keychain,
		authn.NewKeychainFromHelper(ecr.NewECRHelper(ecr.WithLogger(io.Discard))),
		authn.NewKeychainFromHelper(credhelper.NewACRCredentialsHelper()))
	if len(os.Args) > 1 { // linked into the program but never run
		if tag, err := name.NewTag(os.Args[1]); err == nil {
			keychain.Resolve(tag)
		}
	}
}
