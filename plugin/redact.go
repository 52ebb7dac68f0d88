// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"encoding/json"
	"slices"
	"strings"
)

// minConfigured is the length from which values of Command.Env and
// Command.Args count as secrets. Shorter ones are things like "true".
const minConfigured = 8

// secrets returns what must not appear in standard error: what is known of a
// run, and the values of Env and Args, but for those that the image itself
// says, such as a registry that a flag allows.
func (c Command) secrets(known []string, image string) []string {
	var values []string
	for _, entry := range c.Env {
		_, value, _ := strings.Cut(entry, "=")
		values = append(values, value)
	}
	for _, arg := range c.Args {
		// Of a flag, the value counts and the name does not.
		if strings.HasPrefix(arg, "-") {
			_, arg, _ = strings.Cut(arg, "=")
		}
		values = append(values, arg)
	}
	values = slices.DeleteFunc(values, func(v string) bool {
		return len(v) < minConfigured || strings.Contains(image, v)
	})
	return slices.Concat(known, values)
}

// answerSecrets returns the strings of an answer that may be secrets, however
// broken the answer is: all but the user names and what the protocol fixes.
func answerSecrets(stdout []byte) []string {
	var secrets []string
	dec := tokens(stdout)
	type level struct {
		object bool
		name   string // of the member whose value is next
		isName bool   // a member's name is next
	}
	levels := []level{{}}
	for {
		token, err := dec.Token()
		if err != nil {
			return secrets
		}
		top := &levels[len(levels)-1]
		switch token := token.(type) {
		case json.Delim:
			switch token {
			case '{', '[':
				top.isName = top.object
				levels = append(levels, level{object: token == '{', isName: token == '{'})
			default:
				levels = levels[:len(levels)-1]
			}
			continue
		case string:
			if top.isName {
				top.name, top.isName = token, false
				continue
			}
			if !harmless(top.name) {
				secrets = append(secrets, token)
			}
		}
		top.isName = top.object
	}
}

func harmless(field string) bool {
	switch strings.ToLower(field) {
	case "kind", "apiversion", "cachekeytype", "cacheduration", "expirationtimestamp", "username":
		return true
	}
	return false
}

// oneLine returns s as one line of at most max bytes, for an error message.
func oneLine(s string, max int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > max {
		s = strings.ToValidUTF8(s[:max], "") + "…"
	}
	return s
}
