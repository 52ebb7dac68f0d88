// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package scrub redacts known secrets in texts such as errors and the standard
// error of programs. It finds a secret in plain, quoted, JSON, HTML, URL-encoded,
// hexadecimal and base64 form.
//
//	line := scrub.Redact(err.Error(), []string{password, token})
//
// Redact a text before shortening it: half a password is also a secret. Plugins
// link this package, so it imports no other package of the module.
package scrub

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Mask is the replacement for a secret.
const Mask = "[redacted]"

// Secret is a string to redact. The mask contains the Name if it is set, for example
// "[redacted: args[1]]".
type Secret struct{ Text, Name string }

// maskFor returns the mask with a name.
func maskFor(name string) string {
	if name == "" {
		return Mask
	}
	return strings.TrimSuffix(Mask, "]") + ": " + name + "]"
}

const (
	// minInsideWordLength is the minimum length of a secret's form that is redacted inside words.
	// Shorter forms are redacted only as whole words, because redacting "a" everywhere
	// would destroy the text and reveal the secret.
	minInsideWordLength = 4

	// minPrefixLength is the minimum length at which a secret's prefix at the end of a text is
	// redacted.
	minPrefixLength = 8

	// minDetectInsideWordLength is the minimum length at which [ContainsSecret] reports a secret inside a word.
	minDetectInsideWordLength = 8
)

// Redact redacts the secrets in all of their forms and returns printable UTF-8. Control
// and formatting characters, except tabs and line feeds, become Go escapes. Empty
// secrets are ignored.
func Redact(text string, secrets []string) string {
	named := make([]Secret, len(secrets))
	for i, s := range secrets {
		named[i].Text = s
	}
	return RedactPart(text, named, false, false)
}

// RedactPart is like [Redact], but for an excerpt of a longer text. Where the text was cut,
// it also redacts possible parts of secrets. If secrets overlap, the mask has the name of
// the longest named secret. If they are adjacent, it has no name.
//
// RedactPart searches before and after escaping, because escaping changes bytes. It inserts
// the masks last, so that no secret is found in a mask.
func RedactPart(text string, secrets []Secret, cutStart, cutEnd bool) string {
	forms := allForms(secrets)
	parts, names := splitHidden(text, findForms(text, forms, cutStart, cutEnd))
	for i, part := range parts {
		parts[i] = escapeNonPrintable(part)
	}
	text = strings.Join(parts, "\x00") // escaped text contains no NUL
	hidden := findForms(text, forms, false, false)
	for i := range hidden {
		if text[i] == 0 {
			hidden[i], names = redactedByte{true, names[0]}, names[1:]
		}
	}
	parts, names = splitHidden(text, hidden)
	var b strings.Builder
	for i, part := range parts {
		if i > 0 {
			b.WriteString(maskFor(names[i-1]))
		}
		b.WriteString(part)
	}
	return b.String()
}

// ContainsSecret reports whether text contains one of the secrets. Secrets shorter than 4 bytes
// are ignored. Secrets shorter than 8 bytes must be whole words, so that "pass" is not
// found in "password".
func ContainsSecret(text string, secrets []string) bool {
	return slices.ContainsFunc(secrets, func(s string) bool {
		return len(s) >= minInsideWordLength &&
			slices.ContainsFunc(secretForms(s), func(form string) bool { return containsForm(text, form) })
	})
}

// containsForm reports whether text contains form according to the rules of [ContainsSecret].
func containsForm(text, form string) bool {
	if len(form) < minInsideWordLength {
		return false
	}
	if len(form) >= minDetectInsideWordLength {
		return strings.Contains(text, form)
	}
	for at := 0; ; at++ {
		i := strings.Index(text[at:], form)
		if i < 0 {
			return false
		}
		if at += i; isWholeWord(text, at, at+len(form)) {
			return true
		}
	}
}

// allForms returns the forms of all secrets without duplicates. Named forms come first,
// then longer forms.
func allForms(secrets []Secret) []Secret {
	var forms []Secret
	for _, s := range secrets {
		trimmed := strings.TrimSpace(s.Text) // a password file may end in a newline
		for _, form := range slices.Concat(secretForms(s.Text), secretForms(trimmed)) {
			forms = append(forms, Secret{form, s.Name})
		}
	}
	slices.SortStableFunc(forms, func(a, b Secret) int {
		return cmp.Or(-cmp.Compare(min(len(a.Name), 1), min(len(b.Name), 1)), -cmp.Compare(len(a.Text), len(b.Text)), strings.Compare(a.Text, b.Text))
	})
	return slices.CompactFunc(forms, func(a, b Secret) bool { return a.Text == b.Text })
}

// secretForms returns s as is and in quoted, JSON, HTML, URL-encoded, hexadecimal and base64
// form. It returns base64 for each alignment, because s may follow a user name in
// "Authorization: Basic".
func secretForms(s string) []string {
	quoted := fmt.Sprintf("%q", s)
	marshalled, _ := json.Marshal(s)
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	enc.Encode(s)
	unescaped := plain.String()[1 : plain.Len()-len("\"\n")]
	forms := []string{
		s,
		quoted[1 : len(quoted)-1],
		string(marshalled[1 : len(marshalled)-1]),
		unescaped,
		strings.ReplaceAll(unescaped, "/", `\/`),
		asciiJSON(unescaped),
		asciiJSON(strings.ReplaceAll(unescaped, "/", `\/`)),
		strings.ReplaceAll(s, "/", `\/`),
		strings.ReplaceAll(s, `\`, `\\`),
		html.EscapeString(s),
		strings.NewReplacer("&#34;", "&quot;", "&#39;", "&#x27;").Replace(html.EscapeString(s)),
		hex.EncodeToString([]byte(s)),
		strings.ToUpper(hex.EncodeToString([]byte(s))),
		base64.RawStdEncoding.EncodeToString([]byte(s)),
		base64.RawURLEncoding.EncodeToString([]byte(s)),
	}
	forms = append(forms, urlForms(s)...)
	for _, form := range forms { // messages quote what a server sent
		if quoted := strconv.Quote(form); len(quoted) > len(form)+len(`""`) {
			forms = append(forms, quoted[1:len(quoted)-1])
		}
	}
	for before := range 3 {
		data := []byte(strings.Repeat("x", before) + s)
		forms = append(forms,
			stableBase64(base64.RawStdEncoding.EncodeToString(data), before, len(data)),
			stableBase64(base64.RawURLEncoding.EncodeToString(data), before, len(data)))
	}
	return slices.DeleteFunc(forms, func(form string) bool { return form == "" })
}

// asciiJSON escapes the characters outside ASCII in a JSON string.
func asciiJSON(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// urlForms returns the forms of s in a URL. Languages differ in the characters that they do not
// escape, and in the case of hexadecimal digits.
func urlForms(s string) []string {
	query := url.QueryEscape(s)
	forms := []string{query, strings.ReplaceAll(query, "+", "%20"), url.PathEscape(s)}
	for _, keep := range []*strings.Replacer{
		strings.NewReplacer("%2F", "/"),
		strings.NewReplacer("%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*"), // encodeURIComponent
	} {
		for _, form := range forms {
			forms = append(forms, keep.Replace(form))
		}
	}
	for _, form := range forms {
		forms = append(forms, lowerEscapes(form))
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// lowerEscapes returns a URL-encoded string with lower-case hexadecimal digits.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

// stableBase64 returns the base64 digits that depend only on bytes [from, to).
func stableBase64(encoded string, from, to int) string {
	first, last := (from*8+5)/6, to*8/6
	if first >= last {
		return ""
	}
	return encoded[first:last]
}

// redactedByte records whether a byte is redacted, and the name for its mask.
type redactedByte struct {
	hidden bool
	name   string
}

// findForms returns which bytes belong to a form. If forms overlap, the first one in
// forms sets a byte's name.
func findForms(text string, forms []Secret, cutStart, cutEnd bool) []redactedByte {
	hidden := make([]redactedByte, len(text))
	hide := func(from, to int, name string) {
		for i := from; i < to; i++ {
			if !hidden[i].hidden {
				hidden[i] = redactedByte{true, name}
			}
		}
	}
	for _, form := range forms {
		done := 0 // hidden up to here; keeps overlapping matches in linear time
		for at := 0; ; at++ {
			i := strings.Index(text[at:], form.Text)
			if i < 0 {
				break
			}
			at += i
			if len(form.Text) >= minInsideWordLength || isWholeWord(text, at, at+len(form.Text)) {
				hide(max(at, done), at+len(form.Text), form.Name)
				done = at + len(form.Text)
			}
		}
	}
	for _, form := range forms { // after complete forms, which take precedence
		hide(0, partialAtStart(text, form.Text, cutStart), form.Name)
		hide(len(text)-partialAtEnd(text, form.Text, cutEnd), len(text), form.Name)
	}
	return hidden
}

// splitHidden returns the parts around each run of hidden bytes, and the name of each
// run. The name is "" if the bytes of a run have different names.
func splitHidden(text string, hidden []redactedByte) (parts, names []string) {
	from := 0
	for i, at := range hidden {
		switch {
		case !at.hidden:
			continue
		case i == 0 || !hidden[i-1].hidden:
			parts, names = append(parts, text[from:i]), append(names, at.name)
		case names[len(names)-1] != at.name:
			names[len(names)-1] = ""
		}
		from = i + 1
	}
	return append(parts, text[from:]), names
}

// partialAtStart returns how many bytes at the start of a cut text may be the end of a
// form.
func partialAtStart(text, form string, cut bool) int {
	if !cut {
		return 0
	}
	if len(form) > len(text) && strings.Contains(form, text) {
		return len(text)
	}
	for n := min(len(text), len(form)-1); n > 0; n-- {
		if strings.HasPrefix(text, form[len(form)-n:]) {
			return n
		}
	}
	return 0
}

// partialAtEnd returns how many bytes at the end of text may be the start of a form. It
// also checks complete texts, because a plugin may be killed in the middle of a line. For
// complete texts, it ignores prefixes shorter than minPrefixLength.
func partialAtEnd(text, form string, cut bool) int {
	least := minPrefixLength
	if cut {
		least = 1
	}
	for n := min(len(text), len(form)-1); n >= least; n-- {
		if strings.HasSuffix(text, form[:n]) {
			return n
		}
	}
	return 0
}

func isWholeWord(text string, from, to int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:from])
	after, _ := utf8.DecodeRuneInString(text[to:])
	return !isWordRune(before) && !isWordRune(after)
}

// isWordRune reports whether r is part of a word. It returns false for the RuneError that
// marks either end of the text.
func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// escapeNonPrintable returns s as printable UTF-8. Control and formatting characters, except tabs
// and line feeds, become Go escapes. CR LF becomes LF.
func escapeNonPrintable(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	var b strings.Builder
	for _, r := range s {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := fmt.Sprintf("%q", r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}
