// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package config reads and validates the kubelet's configuration of image credential providers,
// CredentialProviderConfig (KEP-2133, KEP-4412). It also reads RegistryCredentialConfig of the
// out-of-tree proposal. It accepts and rejects the same files as the kubelet, and reports the
// position and cause of every problem:
//
//	c, err := config.Load("/etc/kubernetes/credential-provider-config.yaml") // or a directory
//	…
//	if err := c.Validate(); err != nil {
//		return err // …config.yaml:4:9: providers[0].name: must not contain spaces: rename the plugin: "my…"
//	}
//	for _, p := range c.Providers {
//		…
//	}
//
// Errors have type [*FieldError] and never contain a value of args, env or extraArgs.
//
// Package regcred runs the plugins, package match matches images, and package lint finds
// settings that the kubelet accepts but that cannot work. This package reads only the given
// files.
package config
