// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

// Pattern is one entry of matchImages, or one key of an answer's auth,
// compiled. The zero value matches nothing.
type Pattern struct{ raw string }

// ParsePattern compiles a pattern. It fails exactly where kubelet 1.36 does.
func ParsePattern(s string) (Pattern, error) { return Pattern{}, errTODO }

// Match reports whether p matches a normalised repository such as
// "registry.example:5000/team/app", as the kubelet's URLsMatchStr does.
// It does not allocate.
func (p Pattern) Match(image string) bool { return false }

// String returns the pattern as it was written.
func (p Pattern) String() string { return p.raw }
