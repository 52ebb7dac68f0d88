// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package rules

import (
	"regexp"
	"strings"
	"sync"
)

// LazyRegexp returns a function that compiles a regular expression on its first call.
func LazyRegexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

var placeholderPattern = LazyRegexp(`\{\{.*\}\}|^<[^<>]+>$|(?i)^(?:change[-_]?me|replace[-_]?me|todo|redacted|your[-_ ].*|x{3,}|\*{3,}|\.{3})$`)

// IsPlaceholder reports whether a value looks like an unfilled placeholder.
func IsPlaceholder(value string) bool {
	return placeholderPattern().MatchString(strings.TrimSpace(value))
}
