// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package match normalises image names and matches them against patterns as the kubelet does.
// Elements of matchImages, auth keys in a plugin's response, and keys in a docker config file
// are all patterns.
//
//	repository, err := match.Repository("eu.registry.example/team/app:v1") // eu.registry.example/team/app
//	…
//	pattern, err := match.Parse("*.registry.example/team")
//	…
//	pattern.Match(repository) // true
//
// The package imports only the standard library, and its results do not depend on the Go
// version or GODEBUG of the program. It checks only the syntax of tags and digests, and sends
// no requests. All functions and values are safe for concurrent use.
package match
