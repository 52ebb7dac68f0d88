// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package dockerconfig reads docker's credential files.
//
// [Parse] reads config.json and the older .dockercfg as the kubelet does. It reads
// only auths and uses no helpers. Kubernetes image pull secrets have the same formats.
//
//	auths, err := dockerconfig.Parse(data, dockerconfig.ConfigJSON)
//
// [ParseFile] reads config.json and podman's auth.json as docker and podman do. It
// also reads credHelpers, credsStore, tokens, and keys with a path. A [Helper] is a
// docker-credential-* program.
//
//	file, err := dockerconfig.ParseFile(data)
//	if name, server := file.Helper("registry.example"); name != "" {
//		auth, err := dockerconfig.Helper{Name: name}.Get(ctx, server)
//	} else {
//		matches := file.Find("registry.example/team/app")
//	}
//
// The package does not search for files or write them. Errors contain no text from
// a file, except keys that look like registries and valid helper names. Errors never
// contain a helper's output.
package dockerconfig
