// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package entries makes what a kubelet is told of regcred: entries of a
// CredentialProviderConfig, one for each distinct tokenAttributes, all of which
// name the dispatcher. It derives them from the providers of a generation, says
// what those that a kubelet has leave uncovered, and edits them into a file that
// belongs to somebody else.
//
//	want, err := entries.Derive(generation.Providers, entries.Options{Known: known})
//	…
//	if gaps := entries.Uncovered(inMemory, want); len(gaps) > 0 { // it takes a restart
//	…
//	data, err = entries.Set(path, data, want, former)
//
// It opens no file, and knows nothing of links, flags and restarts. Its
// functions and values are safe for concurrent use. Its errors are text for
// people, [*config.FieldError] where they are about a place in a file.
package entries
