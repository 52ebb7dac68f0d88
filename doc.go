// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package regcred resolves container-registry credentials the way a
// Kubernetes node does: it reads the kubelet's CredentialProviderConfig, runs
// the credential provider plugins that match an image, caches their answers,
// and returns the credentials in the order in which a kubelet would try them
// (KEP-2133, KEP-4412).
//
//	config, err := config.Load("/etc/kubernetes/credential-providers.yaml")
//	if err == nil {
//		err = config.Validate()
//	}
//	…
//	keyring, err := regcred.New(config, regcred.Options{BinDir: "/usr/libexec/credential-providers"})
//	…
//	defer keyring.Close()
//	result, err := keyring.Lookup(ctx, regcred.Request{Image: "registry.example/team/app:v1"})
//
// With the zero [Options] it behaves like kubelet 1.37, quirks included;
// docs/project/parity.md lists the few deliberate differences. Unlike the kubelet it
// never takes a failure for "no credentials needed": a lookup that found
// nothing while something failed is a [*LookupError], and every [Result] says
// in its Attempts what each provider did.
//
// The package does not pull images (see [Credential] for what to do with the
// answer), reads no environment variable and writes nothing to disk. It keeps
// no state outside a [Keyring].
package regcred
