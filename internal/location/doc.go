// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package location parses and compares image patterns, auth keys and repositories
// as the kubelet does. Package match is the public API. Packages that compare
// parsed values use package location directly:
//
//	p, err := location.ParsePattern("*.registry.example/team")
//	at, err := location.Parse("eu.registry.example/team/app")
//	p.Match(at) // true
//
// It imports only the standard library. Its values are safe for concurrent use.
package location
