// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import (
	"strings"
	"testing"
)

// TestMasked verifies that redact removes text that looks like a secret and keeps the cause of an
// exit.
func TestMasked(t *testing.T) {
	const secret = "hunter2hunter2"
	for line, want := range map[string]string{
		`I1123 00:00:00.000001 1 flags.go:64] FLAG: --token="` + secret + `"`:       `FLAG: --token="[redacted]"`,
		`time="x" level=info msg="Using token=` + secret + `"`:                      `Using token=[redacted]"`,
		`err="Get \"https://u:` + secret + `@h.example/v2/\": EOF"`:                 `https://[redacted]@h.example/v2/`,
		`proxy http://u:p/` + secret + `@h:1 refused`:                               `http://[redacted]@h:1 refused`,
		`Authorization: Bearer ` + secret:                                           `Bearer [redacted]`,
		`token eyJhbGciOiJub25lIn0.` + secret + `.` + secret + ` expired`:           `token [redacted] expired`,
		`body {\"auth\":{\"password\": \"` + secret + `\"}}`:                        `\"password\": \"[redacted]\"`,
		`body {"identitytoken":"` + secret + `","x":1}`:                             `"identitytoken":"[redacted]","x":1`,
		`password: ` + secret + ` refused`:                                          `password: [redacted] refused`,
		`join with abcdef.0123456789abcdef failed`:                                  `join with [redacted] failed`,
		`K10` + strings.Repeat("ab", 32) + `::server:` + secret + ` is invalid`:     `[redacted] is invalid`,
		strings.Repeat("x", maxLineBytes-20) + ` --password=` + secret:              `--password=`,
		`"failed to fetch token: serviceaccounts \"puller\" is forbidden"`:          `"failed to fetch token: serviceaccounts \"puller\" is forbidden"`,
		`unknown flag: --image-repository`:                                          `unknown flag: --image-repository`,
		`open /var/lib/kubelet/config.yaml: no such file or directory`:              `open /var/lib/kubelet/config.yaml: no such file or directory`,
		`listen tcp 127.0.0.1:10248: bind: address already in use, see a@b.example`: `listen tcp 127.0.0.1:10248: bind: address already in use, see a@b.example`,
	} {
		got := redactAndShorten(line)
		if strings.Contains(got, "hunter2") || strings.Contains(got, "012345678") || !strings.Contains(got, want) {
			t.Errorf("%s\ngot  %s\nwant %s", line, got, want)
		}
	}
}
