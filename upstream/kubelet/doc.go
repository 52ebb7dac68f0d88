// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package kubelet gives the recorder, the parity tests and the benchmarks access to the kubelet's
// own credential provider packages (k8s.io/kubernetes/pkg/credentialprovider and below), so that
// regcred is compared with the original and not with a copy.
//
// Exported functions are used directly. Four things are not exported and are accessed as follows.
// Only the comparison in the last item is reimplemented (three lines):
//
//   - readCredentialProviderConfig, validateCredentialProviderConfig,
//     generateServiceAccountCacheKey, generateCacheKey and the methods encodeRequest and
//     decodeResponse of execPlugin are linked with go:linkname. The linker allows this for packages
//     outside the standard library, and reports functions that a release does not have.
//   - The list of registered providers: a kubelet registers providers only once. [RegisterPlugins]
//     clears the list first, so that the kubelet's RegisterCredentialProviderPlugins can run again.
//   - The field of a registered provider that holds its exec plugin: [SetPlugin] sets it to another
//     implementation of the kubelet's Plugin interface, for tests with tens of thousands of calls.
//   - ExecPlugin compares the apiVersion of a response before it decodes the response.
//     [ExecPlugin.DecodeResponse] does the same comparison before it calls the kubelet's decoder.
//     The recorder checks the results against real processes.
//
// The package supports kubelet 1.34 and later, and 1.33 with the build tag kubelet133.
// [LinkedFeatures] lists the features that not all of them have.
//
// The package does not import regcred, so that the recorded vectors do not depend on the code that
// they test.
package kubelet
