// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import "strings"

// challenge is a challenge in a WWW-Authenticate header (RFC 9110, section 11.6.1).
type challenge struct {
	scheme string            // in lower case
	params map[string]string // lower-case names; the first of duplicates is kept
}

// parseChallenges parses the values of WWW-Authenticate headers. It skips invalid parts.
func parseChallenges(lines []string) []challenge {
	var list []challenge
	for _, line := range lines {
		list = append(list, parseChallengeLine(line)...)
	}
	return list
}

func parseChallengeLine(line string) []challenge {
	var list []challenge
	for {
		line = strings.TrimLeft(line, " \t,")
		if line == "" {
			return list
		}
		n := strings.IndexFunc(line, func(r rune) bool { return !isTokenRune(r) })
		switch n {
		case -1:
			n = len(line)
		case 0:
			line = line[1:] // not part of a token
			continue
		}
		name := strings.ToLower(line[:n])
		value, isParam := strings.CutPrefix(strings.TrimLeft(line[n:], " \t"), "=")
		if !isParam {
			list = append(list, challenge{scheme: name, params: map[string]string{}})
			line = line[n:]
			continue
		}
		text, rest := splitParamValue(strings.TrimLeft(value, " \t"))
		if last := len(list) - 1; last >= 0 {
			if _, again := list[last].params[name]; !again {
				list[last].params[name] = text
			}
		}
		line = rest
	}
}

// splitParamValue splits s after a parameter value, which is a quoted string or ends at a comma or
// space. It also accepts an unquoted URL, which RFC 9110 does not allow.
func splitParamValue(s string) (value, rest string) {
	if !strings.HasPrefix(s, `"`) {
		n := strings.IndexAny(s, " \t,")
		if n < 0 {
			n = len(s)
		}
		return s[:n], s[n:]
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:]
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String(), "" // the closing quote is missing
}

// isTokenRune reports whether r is a tchar (RFC 9110, section 5.6.2).
func isTokenRune(r rune) bool {
	return consistsOf(string(r), "!#$%&'*+-.^_`|~")
}
