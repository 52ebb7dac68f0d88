// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package entries derives the kubelet's entries for regcred: entries of a
// CredentialProviderConfig, one for each distinct tokenAttributes, which all
// name the dispatcher. It also finds what the entries that a kubelet has do not
// cover, and edits entries into a file with other providers.
//
//	want, err := entries.Derive(generation.Providers, entries.Options{Known: known})
//	…
//	if gaps := entries.Uncovered(inMemory, want); len(gaps) > 0 { // needs a kubelet restart
//	…
//	data, err = entries.Set(path, data, want, previous)
//
// It opens no files and does not know about flags and restarts. Its functions
// and values are safe for concurrent use. An error about a place in a file is a
// [*config.FieldError].
package entries
