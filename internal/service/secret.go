// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import (
	"regexp"

	"github.com/regcred/regcred/internal/scrub"
)

// redact redacts what looks like a secret in a log line: kubelets log their flags, k3s
// its token, and both log other programs' errors.
func redact(line string) string {
	const names = `(?:token|passw(?:or)?d|passphrase|secret|api[-_]?key|authorization)`
	for _, form := range []string{ // text in capture groups is kept
		`(://)[^\s"'@]*:[^\s"']*(@)`,                             // user and password of a URL
		`()\beyJ[\w-]{8,}(?:\.[\w-]*)*()`,                        // JSON Web Token
		`(?i)(\b(?:bearer|basic) +)[\w.~+/=-]{8,}()`,             // header
		`()\b[a-z0-9]{6}\.[a-z0-9]{16}\b()`,                      // bootstrap token
		`()\bK10[0-9a-f]{16,}[^\s"\\]*()`,                        // k3s or rke2 token
		`(?i)(` + names + `\\*["']?=\\*["']?)[^\s"'\\,]+()`,      // NAME=VALUE, --NAME="VALUE"
		`(?i)(` + names + `\\*["']\s*:\s*\\*["']?)[^\s"'\\,]+()`, // "NAME": "VALUE"
		`(?i)(passw(?:or)?d:\s*\\*["']?)[^\s"'\\,]+()`,
	} {
		line = regexp.MustCompile(form).ReplaceAllString(line, "${1}"+scrub.Mask+"${2}")
	}
	return line
}
