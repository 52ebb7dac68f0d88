// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package public keeps patterns for hosts from reaching strangers by way of a
// public suffix, under which anybody may have a name: co.uk, github.io. It is
// apart from package hostpattern since the list of these suffixes brings
// net/http, which would make a plugin without network half as large again.
package public

import (
	"fmt"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/regcred/regcred/internal/hostpattern"
)

// Check is [hostpattern.Check], and refuses a * where owners' names stand.
func Check(pattern string) error {
	if err := hostpattern.Check(pattern); err != nil {
		return err
	}
	name, _, _ := strings.Cut(strings.ToLower(pattern), ":")
	if suffix := suffixAt(name); suffix != "" {
		return fmt.Errorf("anyone can register a name under the public suffix %q (publicsuffix.org), "+
			"so the * would send the password to third-party hosts; spell out the domain", suffix)
	}
	return nil
}

// suffixAt returns the public suffix below which the last * of a pattern
// stands for any owner's name, or of which it is itself a part; "" if there is
// none. A name on no list ends with a suffix of one label.
func suffixAt(name string) string {
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
