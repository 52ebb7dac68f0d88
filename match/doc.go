// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package match says what an image is called and which patterns match it, as
// a kubelet does: the entries of matchImages in a credential provider
// configuration, the keys of auth in a plugin's answer, and those of a docker
// config file are all patterns.
//
//	repository, err := match.Repository("eu.registry.example/team/app:v1") // eu.registry.example/team/app
//	…
//	pattern, err := match.Parse("*.registry.example/team")
//	…
//	pattern.Match(repository) // true
//
// It is the only matcher of this module, depends on nothing but the standard
// library, and does not change with the Go version and GODEBUG of the program
// that embeds it. It knows nothing of tags and digests beyond their syntax,
// and contacts nobody. Its functions and values are safe for concurrent use;
// its errors are text for people, and there is none to branch on.
package match
