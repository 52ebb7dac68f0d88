// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package kubelet opens the kubelet's own credential provider packages
// (k8s.io/kubernetes/pkg/credentialprovider and below) to the recorder, the
// parity tests and the benchmarks, so that none of them compares regcred with
// a copy.
//
// What is exported there is used as it is. Four things are not, and are
// reached as follows; nothing is re-implemented but the three lines named last:
//
//   - readCredentialProviderConfig, validateCredentialProviderConfig,
//     generateServiceAccountCacheKey, generateCacheKey and the methods
//     encodeRequest and decodeResponse of execPlugin, by go:linkname. The
//     linker allows that for packages outside the standard library, and names
//     the one that a release does not have.
//   - The list of registered providers. A kubelet registers once in its life;
//     [Register] empties the list first, so that the kubelet's
//     RegisterCredentialProviderPlugins runs again from the start.
//   - The field of a registered provider that holds its exec. [SetPlugin] puts
//     another implementation of the kubelet's own Plugin interface there, for
//     what has to run tens of thousands of times.
//   - ExecPlugin compares the apiVersion of an answer before it decodes it.
//     [DecodeResponse] does the same comparison around the kubelet's own two
//     calls; the recorder checks it against real processes.
//
// It is built with releases from 1.34 on as it is, and with the tag kubelet133
// for 1.33. [This] says what the kubelet has that another
// has not.
//
// The package does not import regcred, so that what the recorder writes owes
// nothing to what is held against it.
package kubelet
