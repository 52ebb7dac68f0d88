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

	"github.com/regcred/regcred/internal/process"
	"github.com/regcred/regcred/internal/scrub"
)

// minRedactLength is the minimum length of a value in Command.Env or Command.Args that is
// redacted. Shorter values are usually settings such as "true".
const minRedactLength = 8

// maxSecrets limits the number of secrets in a response that are searched for.
const maxSecrets = 1000

// containsSecret reports whether standard error contains any of the secrets.
func containsSecret(stderr *process.HeadTail, secrets []string) bool {
	head, tail := string(stderr.Head), string(stderr.Tail)
	secrets = secrets[:min(len(secrets), maxSecrets)]
	if stderr.Omitted == 0 {
		return scrub.ContainsSecret(head+tail, secrets)
	}
	return scrub.ContainsSecret(head, secrets) || scrub.ContainsSecret(tail, secrets)
}

// redactStderr returns standard error as printable UTF-8, with the secrets redacted.
func redactStderr(stderr *process.HeadTail, secrets []scrub.Secret) string {
	head, tail := string(stderr.Head), string(stderr.Tail)
	switch {
	case head == "":
		return ""
	case len(secrets) > maxSecrets:
		return fmt.Sprintf("(standard error is hidden because it might contain one of %d secrets)", len(secrets))
	case stderr.Omitted == 0:
		return scrub.RedactPart(head+tail, secrets, false, false)
	}
	return scrub.RedactPart(head, secrets, false, true) +
		fmt.Sprintf("\n(%d bytes omitted)\n", stderr.Omitted) +
		scrub.RedactPart(tail, secrets, true, false)
}

// secretsToRedact returns the strings to redact in standard error: the known secrets, the
// possible secrets (maybe), and the values of Env and Args.
func (c Command) secretsToRedact(known, maybe []string, image string) []scrub.Secret {
	values := unnamedSecrets(maybe)
	for i, entry := range c.Env {
		_, value, _ := strings.Cut(entry.Reveal(), "=")
		values = append(values, scrub.Secret{Text: value, Name: c.describeValue("env", i)})
	}
	flag := "" // the previous argument, if its value may follow as a separate argument
	for i, arg := range c.Args {
		// Redact the flag's value, but not its name.
		name, value := flag, arg.Reveal()
		if flag = ""; strings.HasPrefix(value, "-") {
			var joined bool
			if name, value, joined = strings.Cut(value, "="); !joined {
				flag = name
			}
		}
		// Do not redact paths, because errors about a file must be able to include its
		// path.
		if strings.HasSuffix(name, "-file") && isAbsolutePath(value) {
			continue
		}
		values = append(values, scrub.Secret{Text: value, Name: c.describeValue("args", i)})
	}
	// A value that is part of the image, such as a registry, is not a secret.
	values = slices.DeleteFunc(values, func(v scrub.Secret) bool {
		return len(v.Text) < minRedactLength || strings.Contains(image, v.Text)
	})
	return append(unnamedSecrets(known), values...)
}

// isAbsolutePath reports whether value is an absolute path and nothing else. A value with other
// characters may contain a secret in addition to a path.
func isAbsolutePath(value string) bool {
	return filepath.IsAbs(value) && filepath.Clean(value) == value && !strings.ContainsAny(value, "?#@=,;& \t")
}

// describeValue returns a description of Env[i] or Args[i] that includes its Place.
func (c Command) describeValue(field string, i int) string {
	name := fmt.Sprintf("%s[%d]", field, i)
	if c.Place != nil {
		if at := c.Place(field, i); at != "" {
			name += ", " + at
		}
	}
	return name
}

func unnamedSecrets(texts []string) []scrub.Secret {
	secrets := make([]scrub.Secret, len(texts))
	for i, text := range texts {
		secrets[i].Text = text
	}
	return secrets
}

// responseSecrets returns the secrets in a response: all strings except user names and values
// that the protocol defines. If the output is not valid JSON, the text from the first invalid
// byte on is searched for possible secrets (see [possibleSecrets]).
func responseSecrets(stdout []byte) (secrets, maybe []string) {
	dec := newNumberDecoder(stdout)
	type level struct {
		object bool
		name   string // name of the member whose value is next
		isName bool   // the next token is a member's name
	}
	levels := []level{{}}
	for {
		token, err := dec.Token()
		if err != nil {
			return secrets, possibleSecrets(string(stdout[dec.InputOffset():]))
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
			if !isPublicField(top.name) {
				secrets = append(secrets, token)
			}
		}
		top.isName = top.object
	}
}

func isPublicField(field string) bool {
	switch strings.ToLower(field) {
	case "kind", "apiversion", "cachekeytype", "cacheduration", "expirationtimestamp", "username":
		return true
	}
	return false
}

// possibleSecrets returns text that may be a secret in output that is not JSON: text in quotes,
// except field names, and words that contain a digit. Other words may belong to an error
// message, which should stay readable in standard error.
func possibleSecrets(text string) (maybe []string) {
	add := func(s string) {
		if len(s) >= minRedactLength && len(maybe) <= maxSecrets {
			maybe = append(maybe, s)
		}
	}
	for _, quote := range []string{`"`, "'"} {
		// It is not known which quotes form a pair, so treat every two neighboring quotes as a
		// pair.
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

// truncateToLine returns s on one line of at most max bytes, for an error message.
func truncateToLine(s string, max int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > max {
		s = strings.ToValidUTF8(s[:max], "") + "…"
	}
	return s
}
