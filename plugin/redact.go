// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/regcred/regcred/internal/scrub"
)

// minConfigured is the length from which values of Command.Env and
// Command.Args count as secrets. Shorter ones are things like "true".
const minConfigured = 8

// isPath reports whether value is a plain absolute path. A value with other
// characters may hold a secret in addition to a path.
func isPath(value string) bool {
	return filepath.IsAbs(value) && filepath.Clean(value) == value && !strings.ContainsAny(value, "?#@=,;& \t")
}

// secrets returns what must not appear in standard error: what is known of a
// run, and what may be one and the values of Env and Args, but for those that
// the image itself says, such as a registry that a flag allows, and the paths of
// flags such as --password-file: an error about that file must name it. The masks
// of values say which they are.
func (c Command) secrets(known, maybe []string, image string) []scrub.Secret {
	values := unnamed(maybe)
	for i, entry := range c.Env {
		_, value, _ := strings.Cut(entry, "=")
		values = append(values, scrub.Secret{Text: value, Name: c.place("env", i)})
	}
	flag := "" // the previous argument, if it is a flag whose value is next
	for i, arg := range c.Args {
		// Of a flag, the value counts and the name does not.
		name, value := flag, arg
		if flag = ""; strings.HasPrefix(arg, "-") {
			var joined bool
			if name, value, joined = strings.Cut(arg, "="); !joined {
				flag = name
			}
		}
		if strings.HasSuffix(name, "-file") && isPath(value) {
			continue
		}
		values = append(values, scrub.Secret{Text: value, Name: c.place("args", i)})
	}
	values = slices.DeleteFunc(values, func(v scrub.Secret) bool {
		return len(v.Text) < minConfigured || strings.Contains(image, v.Text)
	})
	return append(unnamed(known), values...)
}

// place is what a mask says of Env[i] or Args[i].
func (c Command) place(field string, i int) string {
	name := fmt.Sprintf("%s[%d]", field, i)
	if c.Place != nil {
		if at := c.Place(field, i); at != "" {
			name += ", " + at
		}
	}
	return name
}

func unnamed(texts []string) []scrub.Secret {
	secrets := make([]scrub.Secret, len(texts))
	for i, text := range texts {
		secrets[i].Text = text
	}
	return secrets
}

// answerSecrets returns the strings of an answer that are or may be secrets: all
// but the user names and what the protocol fixes. From where it is no JSON, it
// may be anything: see [looseSecrets].
func answerSecrets(stdout []byte) (secrets, maybe []string) {
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
			return secrets, looseSecrets(string(stdout[dec.InputOffset():]))
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

// looseSecrets returns what may be a secret in a text that is no JSON, such as
// an answer behind a warning, or cut off: what stands between quotes, but for
// the names of members, and words with a digit. Other words are too likely those
// of an error, which standard error is there to say.
func looseSecrets(text string) (maybe []string) {
	add := func(s string) {
		if len(s) >= minConfigured && len(maybe) <= maxSecrets {
			maybe = append(maybe, s)
		}
	}
	for _, quote := range []string{`"`, "'"} {
		// Which quotes belong together is not known, so each pair counts.
		parts := strings.Split(strings.ReplaceAll(text, `\`+quote, "\x00"), quote)
		for i, part := range parts[1:] {
			part = strings.ReplaceAll(part, "\x00", `\`+quote)
			if i+2 < len(parts) && strings.HasPrefix(strings.TrimLeft(parts[i+2], " \t\r\n"), ":") {
				continue
			}
			add(part)
			var unquoted string
			if json.Unmarshal([]byte(`"`+part+`"`), &unquoted) == nil && unquoted != part {
				add(unquoted)
			}
		}
	}
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("\"'`{}[]()<>,;=", r) }) {
		if strings.ContainsAny(word, "0123456789") {
			add(strings.TrimRight(word, ".:"))
		}
	}
	return maybe
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
