// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package dockerconfig reads docker's credential files, for two kinds of
// reader.
//
// [Parse] and [ParseLegacy] read config.json and the older .dockercfg as the
// kubelet does: `auths` alone, without calling helpers. Kubernetes image pull
// secrets have the same two forms.
//
//	auths, err := dockerconfig.Parse(data)
//
// [ParseFile] reads a config.json, or podman's auth.json, as docker and podman
// do: with `credHelpers`, `credsStore`, tokens, and keys for parts of a
// registry. A [Helper] is a docker-credential-* program.
//
//	file, err := dockerconfig.ParseFile(data)
//	if name, server := file.Helper("registry.example"); name != "" {
//		auth, err := dockerconfig.Helper{Name: name}.Get(ctx, server)
//	} else {
//		matches := file.Find("registry.example/team/app")
//	}
//
// The package does not look for files and does not write. Errors never hold
// anything of a file's content but keys and helper names that look like such,
// and nothing of what a helper writes.
package dockerconfig
