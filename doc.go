// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package regcred resolves container-registry credentials the way a
// Kubernetes node does. It reads the kubelet's CredentialProviderConfig, runs
// the credential provider plugins that match an image, caches their responses,
// and returns the credentials in the order in which a kubelet would try them
// (KEP-2133, KEP-4412).
//
//	cfg, err := config.Load("/etc/kubernetes/credential-providers")
//	if err != nil {
//		fmt.Println(err)
//		return
//	}
//	keyring, err := regcred.New(cfg, regcred.Options{BinDir: "/usr/libexec/credential-providers"})
//	if err != nil {
//		fmt.Println(err)
//		return
//	}
//	defer keyring.Close()
//	result, err := keyring.Lookup(context.Background(), regcred.Request{Image: "registry.example/team/app:v1"})
//
// With the zero [Options] it behaves like kubelet 1.37, quirks included;
// docs/project/parity.md lists the few deliberate differences. Unlike the
// kubelet it never treats a failure as "no credentials needed": a lookup that
// found no credential because a provider failed returns a [*LookupError], and
// [Result].Attempts has the outcome of each provider.
//
// The package does not pull images, read environment variables or write to
// disk. It keeps no state outside a [Keyring].
package regcred
