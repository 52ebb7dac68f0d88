// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package dispatch makes one answer for a kubelet of the answers of all
// providers of a node's current generation that one entry of the kubelet's
// configuration stands for. What a kubelet does with the answer decides how it
// looks (pkg/credentialprovider/plugin/plugin.go and keyring.go of Kubernetes
// 1.36):
//
//   - It keeps an answer for an image, a registry (host and port), or all that
//     the entry is asked about, and asks nobody while it has it. So an answer
//     is for no more than all providers of the entry have answered for, for no
//     longer than the shortest of them allows, and not kept at all if one failed.
//   - It takes one credential for each auth key, tries keys in the reverse byte
//     order of their normalised text, and matches paths by string prefix. So
//     where two providers have one key, an answer is for one image, under keys
//     that keep the order.
//   - It shows what a plugin writes to standard error only if the plugin fails.
//     So a run fails if nothing was found and a provider failed.
//
// The package is not a cache and starts no daemon; it has the Keyring ask.
//
//	p := &dispatch.Provider{Entry: entry, Config: current.Config, BinDir: current.BinDir(), MaxStale: time.Minute}
//	defer p.Close()
//	answer, err := p.GetCredentials(ctx, request)
package dispatch
