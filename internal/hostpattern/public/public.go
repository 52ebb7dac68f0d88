// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package public rejects host patterns that match third-party hosts under a public suffix such
// as co.uk or github.io, where anyone can register a name. It is separate from package
// hostpattern because the list of suffixes imports net/http. Plugins without network access
// would become about 50 % larger.
package public

import (
	"fmt"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/regcred/regcred/internal/hostpattern"
)

// Validate calls [hostpattern.Validate]. It also rejects a * directly below a public suffix.
func Validate(pattern string) error {
	if err := hostpattern.Validate(pattern); err != nil {
		return err
	}
	name, _, _ := strings.Cut(strings.ToLower(pattern), ":")
	if suffix := publicSuffixOf(name); suffix != "" {
		return fmt.Errorf("anyone can register a name under the public suffix %q (publicsuffix.org), "+
			"so the * would send the password to third-party hosts; spell out the domain", suffix)
	}
	return nil
}

// publicSuffixOf returns the public suffix that follows the last * of a pattern or contains it.
// It returns "" if there is none. The public suffix of an unlisted domain is its last label.
func publicSuffixOf(name string) string {
	at := strings.LastIndexByte(name, '*')
	if at < 0 {
		return ""
	}
	start := strings.LastIndexByte(name[:at], '.') + 1
	_, below, _ := strings.Cut(name[at:], ".")
	for _, s := range []string{below, name[start:]} {
		host := strings.ReplaceAll(s, "*", "x")
		if suffix, _ := publicsuffix.PublicSuffix(host); suffix == host {
			return s
		}
	}
	return ""
}
