// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package config reads the files that tell a kubelet of its image credential
// providers: CredentialProviderConfig (KEP-2133, KEP-4412), and the
// RegistryCredentialConfig of its predecessor. It accepts what a kubelet
// accepts, refuses what one refuses, and says where and why:
//
//	c, err := config.Load("/etc/kubernetes/credential-provider-config.yaml") // or a directory
//	…
//	if err := c.Validate(); err != nil {
//		return err // …config.yaml:4:9: providers[0].name: must not have blanks: rename the plugin: "my…"
//	}
//	for _, p := range c.Providers {
//		…
//	}
//
// Problems are of type [*FieldError], all of them at once; none holds a value of
// args, env or extraArgs.
//
// It runs no plugin and matches no image, which packages regcred and match do,
// and does not say what a kubelet accepts although it cannot work, which package
// lint does. It reads the files that it is given, and neither the environment
// nor anything else of the machine.
package config
