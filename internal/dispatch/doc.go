// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package dispatch answers a request of the kubelet with the merged responses of several
// providers. One entry of the kubelet's configuration represents all providers of a
// node's current generation. How the kubelet uses a response determines its form
// (pkg/credentialprovider/plugin/plugin.go and keyring.go):
//
//   - The kubelet caches a response for an image, a registry, or all images of the entry,
//     and calls no plugin meanwhile. So the scope and duration are the smallest of all
//     responses, and a response is not cached if a provider failed.
//   - The kubelet uses one credential per auth key, tries keys in reverse byte order of
//     their normalised text, and matches paths by prefix. If two providers have the same
//     key, the response is for a single image, with keys that keep the order.
//   - The kubelet shows a plugin's standard error only if the plugin fails. So a run fails
//     if there is no credential and a provider failed.
//
// A Keyring calls the plugins. The package has no cache and starts no daemon.
//
//	p := &dispatch.Provider{Entry: entry, Config: current.Config, BinDir: current.BinDir(), MaxStale: time.Minute}
//	defer p.Close()
//	answer, err := p.GetCredentials(ctx, request)
package dispatch
