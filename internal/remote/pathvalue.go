// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote

import (
	"errors"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// percentEscape matches the beginning of an escape such as %2f, %252f or %u2215.
var percentEscape = regexp.MustCompile(`%[0-9A-Fa-fuU]`)

// CheckPathValue rejects a value that must not be in one segment of a URL's path, even if it is
// escaped. Servers and proxies may decode a path several times, and before or after they resolve
// dot segments. Some also treat \ and characters that look like / or . as / and ., or end a segment
// at a semicolon.
func CheckPathValue(s string) error {
	switch {
	case strings.Trim(s, ". ") == "":
		return errors.New("a value in the path must not be empty or consist of dots")
	case percentEscape.MatchString(s):
		return errors.New("a value in the path must not contain percent escapes")
	case !utf8.ValidString(s) || strings.ContainsFunc(s, isPathSyntax):
		return errors.New(`a value in the path must not contain / \ ; ? # or similar characters`)
	}
	return nil
}

// isPathSyntax reports whether a server may read r as part of a URL's syntax. Characters outside
// ASCII are allowed only if they are letters, marks or digits, which no normalization form converts
// to dots or slashes.
func isPathSyntax(r rune) bool {
	if r >= utf8.RuneSelf {
		return !unicode.In(r, unicode.L, unicode.M, unicode.Nd)
	}
	return r < ' ' || r == 0x7f || strings.ContainsRune(`/\;?#`, r)
}
