// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package match

import (
	"github.com/regcred/regcred/internal/diagnose"
	"github.com/regcred/regcred/internal/location"
)

// Pattern is an element of matchImages or a key of auth. Use [Parse] to create a Pattern. The
// zero value matches nothing.
type Pattern struct{ compiled location.Pattern }

// Parse compiles a pattern. It returns an error if and only if kubelet 1.37 does
// (ParseSchemelessURL in pkg/credentialprovider/keyring.go), regardless of the program's Go
// version and GODEBUG. The error does not contain the pattern, which may contain a password.
func Parse(pattern string) (Pattern, error) {
	p, err := location.ParsePattern(pattern)
	return Pattern{p}, err
}

// Match reports whether p matches the result of [Repository] or [Registry], like the kubelet's
// URLsMatchStr. All of the following must be true:
//
//   - The ports are equal, or both are absent.
//   - The hosts have the same number of labels, and each label matches. A *
//     matches any text within a label, even an empty text. Case matters.
//   - p's path is a string prefix of the repository's path.
//
// If the repository cannot be parsed, it does not match. Match allocates only for
// percent-escapes and IPv6 addresses.
func (p Pattern) Match(repository string) bool {
	at, err := location.Parse(repository)
	return err == nil && p.compiled.Match(at)
}

// Why explains why p does not match a repository. It returns "" if p matches. The text is for
// people and may change.
func (p Pattern) Why(repository string) string {
	at, err := location.Parse(repository)
	if err != nil {
		return "invalid repository: " + err.Error()
	}
	return diagnose.ComparePattern(p.compiled, at).Reason
}

// String returns the pattern as passed to [Parse].
func (p Pattern) String() string { return p.compiled.String() }

// Select returns the auth keys whose credentials the kubelet uses for the result of
// [Repository] or [Registry]. Keys are returned unchanged, in the order in which the kubelet
// tries them. For a Docker Hub image that no key matches, it returns the keys that refer to
// index.docker.io. Select returns nil if there are no such keys or if the repository cannot be
// parsed.
func Select(keys []string, repository string) []string { return location.Select(keys, repository) }
