// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import (
	"regexp"

	"github.com/regcred/regcred/internal/scrub"
)

// masked takes out of a line of a log what looks like a secret, whoever's it is: a
// kubelet writes its flags, k3s its token, both the errors of others.
func masked(line string) string {
	for _, s := range secretForms() {
		line = s.ReplaceAllString(line, "${1}"+scrub.Mask+"${2}")
	}
	return line
}

// secretForms have what may stay in their groups, before and after the secret.
func secretForms() []*regexp.Regexp {
	const names = `(?:token|passw(?:or)?d|passphrase|secret|api[-_]?key|authorization)`
	var list []*regexp.Regexp
	for _, form := range []string{
		`(://)[^\s"'@]*:[^\s"']*(@)`,                             // user and password of a URL
		`()\beyJ[\w-]{8,}(?:\.[\w-]*)*()`,                        // JSON Web Token
		`(?i)(\b(?:bearer|basic) +)[\w.~+/=-]{8,}()`,             // header
		`()\b[a-z0-9]{6}\.[a-z0-9]{16}\b()`,                      // bootstrap token
		`()\bK10[0-9a-f]{16,}[^\s"\\]*()`,                        // token of k3s and rke2
		`(?i)(` + names + `\\*["']?=\\*["']?)[^\s"'\\,]+()`,      // NAME=VALUE, --NAME="VALUE"
		`(?i)(` + names + `\\*["']\s*:\s*\\*["']?)[^\s"'\\,]+()`, // "NAME": "VALUE"
		`(?i)(passw(?:or)?d:\s*\\*["']?)[^\s"'\\,]+()`,
	} {
		list = append(list, regexp.MustCompile(form))
	}
	return list
}
