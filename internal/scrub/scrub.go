// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package scrub takes secrets out of texts that are shown: errors, and what
// programs wrote to standard error. A secret is found in each form in which
// programs write it: quoted, in JSON, in a URL, in hex, in base64.
//
//	line := scrub.Text(err.Error(), []string{password, token})
//
// A mask may say which secret it stands for, where that helps and tells nothing
// of it: see [Secret].
//
// It cannot know a secret that it is not given, and a text must be scrubbed
// before it is shortened: half a password is one too. It imports nothing of
// this module, since plugins are built from it.
package scrub

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Mask stands in place of a secret.
const Mask = "[redacted]"

// Secret is a text to hide, and what the mask in its place says of it, such as
// where it stands: "[redacted: args[1]]" for the Name "args[1]". Without a name
// it is [Mask].
type Secret struct{ Text, Name string }

// mask stands in place of a secret of that name.
func mask(name string) string {
	if name == "" {
		return Mask
	}
	return strings.TrimSuffix(Mask, "]") + ": " + name + "]"
}

const (
	// minWord is the length from which a form of a secret is removed wherever
	// it stands. A shorter one is removed where it stands as a word: removing
	// "a" everywhere would destroy the text, and tell by the holes what the
	// secret is.
	minWord = 4

	// minCut is how much of a secret must stand at the very end of a text to
	// count as one that was cut off.
	minCut = 8

	// minSure is the length from which a secret is told wherever it stands,
	// and not by chance.
	minSure = 8
)

// Text returns text with a mask in place of every secret in every form in
// which programs write it, as harmless UTF-8: control and formatting
// characters, but for tabs and line ends, are written as Go escapes. An empty
// secret is none.
func Text(text string, secrets []string) string {
	named := make([]Secret, len(secrets))
	for i, s := range secrets {
		named[i].Text = s
	}
	return Part(text, named, false, false)
}

// Part is [Text] for what is left of a longer text: what stands at an end where
// it was cut is masked too if it may be a part of a secret. Of several secrets at
// one place the longest that has a name gives it; a mask for several says none.
//
// Secrets are looked for before and after the text is made harmless, since that
// changes bytes. A mask is put in at the end, so that a password that stands in
// the mask itself is not found there.
func Part(text string, secrets []Secret, cutStart, cutEnd bool) string {
	forms := allForms(secrets)
	parts, names := cutHidden(text, findForms(text, forms, cutStart, cutEnd))
	for i, part := range parts {
		parts[i] = harmlessText(part)
	}
	text = strings.Join(parts, "\x00") // which no harmless text has
	hidden := findForms(text, forms, false, false)
	for i := range hidden {
		if text[i] == 0 {
			hidden[i], names = cover{true, names[0]}, names[1:]
		}
	}
	parts, names = cutHidden(text, hidden)
	var b strings.Builder
	for i, part := range parts {
		if i > 0 {
			b.WriteString(mask(names[i-1]))
		}
		b.WriteString(part)
	}
	return b.String()
}

// Holds reports whether one of the secrets stands in text. The shortest do not
// count, and short ones only as a word: "pass" is no password in "password".
func Holds(text string, secrets []string) bool {
	return slices.ContainsFunc(secrets, func(s string) bool {
		return len(s) >= minWord &&
			slices.ContainsFunc(secretForms(s), func(form string) bool { return tells(text, form) })
	})
}

// tells reports whether form stands in text other than by chance.
func tells(text, form string) bool {
	if len(form) < minWord {
		return false
	}
	if len(form) >= minSure {
		return strings.Contains(text, form)
	}
	for at := 0; ; at++ {
		i := strings.Index(text[at:], form)
		if i < 0 {
			return false
		}
		if at += i; isWord(text, at, at+len(form)) {
			return true
		}
	}
}

// allForms returns the texts in which the secrets may appear, without duplicates:
// those with a name first, of these the longest first.
func allForms(secrets []Secret) []Secret {
	var forms []Secret
	for _, s := range secrets {
		for _, form := range secretForms(s.Text) {
			forms = append(forms, Secret{form, s.Name})
		}
		if trimmed := strings.TrimSpace(s.Text); trimmed != s.Text { // a password file that ends in a line end
			for _, form := range secretForms(trimmed) {
				forms = append(forms, Secret{form, s.Name})
			}
		}
	}
	slices.SortStableFunc(forms, func(a, b Secret) int {
		return cmp.Or(-cmp.Compare(min(len(a.Name), 1), min(len(b.Name), 1)), -cmp.Compare(len(a.Text), len(b.Text)), strings.Compare(a.Text, b.Text))
	})
	return slices.CompactFunc(forms, func(a, b Secret) bool { return a.Text == b.Text })
}

// secretForms returns s itself and as programs write it: quoted, in JSON, in
// a URL, in hex, and in base64 at any alignment, such as in "Authorization:
// Basic" after a user name.
func secretForms(s string) []string {
	quoted := fmt.Sprintf("%q", s)
	marshalled, _ := json.Marshal(s)
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	enc.Encode(s)
	forms := []string{
		s,
		quoted[1 : len(quoted)-1],
		string(marshalled[1 : len(marshalled)-1]),
		plain.String()[1 : plain.Len()-len("\"\n")],
		percentEncode(s, "-_.~", "%20"),
		percentEncode(s, "-_.~", "+"),         // in a query
		percentEncode(s, "-_.~$&+=:@", "%20"), // in a path
		hex.EncodeToString([]byte(s)),
		strings.ToUpper(hex.EncodeToString([]byte(s))),
		base64.RawStdEncoding.EncodeToString([]byte(s)),
		base64.RawURLEncoding.EncodeToString([]byte(s)),
	}
	for before := range 3 {
		data := []byte(strings.Repeat("x", before) + s)
		forms = append(forms,
			inner(base64.RawStdEncoding.EncodeToString(data), before, len(data)),
			inner(base64.RawURLEncoding.EncodeToString(data), before, len(data)))
	}
	return slices.DeleteFunc(forms, func(form string) bool { return form == "" })
}

// inner returns the digits of a base64 text that depend on bytes [from, to) alone.
func inner(encoded string, from, to int) string {
	first, last := (from*8+5)/6, to*8/6
	if first >= last {
		return ""
	}
	return encoded[first:last]
}

// percentEncode writes s as it stands in a URL.
func percentEncode(s, plain, space string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		switch {
		case c == ' ':
			b.WriteString(space)
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(plain, c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// cover says whether a byte is hidden, and by what name.
type cover struct {
	hidden bool
	name   string
}

// findForms tells which bytes belong to a form. All places are found before any
// is replaced: forms overlap. What comes first in forms gives a byte its name.
func findForms(text string, forms []Secret, cutStart, cutEnd bool) []cover {
	hidden := make([]cover, len(text))
	hide := func(from, to int, name string) {
		for i := from; i < to; i++ {
			if !hidden[i].hidden {
				hidden[i] = cover{true, name}
			}
		}
	}
	for _, form := range forms {
		done := 0 // hidden up to here, so that overlapping places cost no more than the text is long
		for at := 0; ; at++ {
			i := strings.Index(text[at:], form.Text)
			if i < 0 {
				break
			}
			at += i
			if len(form.Text) >= minWord || isWord(text, at, at+len(form.Text)) {
				hide(max(at, done), at+len(form.Text), form.Name)
				done = at + len(form.Text)
			}
		}
	}
	for _, form := range forms { // what is whole says more than what may be a part
		hide(0, cutAtStart(text, form.Text, cutStart), form.Name)
		hide(len(text)-cutAtEnd(text, form.Text, cutEnd), len(text), form.Name)
	}
	return hidden
}

// cutHidden returns what stands around each run of hidden bytes, and the name of
// each run: "" if its bytes have several.
func cutHidden(text string, hidden []cover) (parts, names []string) {
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

// cutAtStart returns how many bytes at the start of text are the rest of a
// form whose beginning was cut off.
func cutAtStart(text, form string, cut bool) int {
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

// cutAtEnd returns how many bytes at the end of text are the beginning of a
// form. A plugin may die in the middle of a line, so the end of everything
// counts too, but there a byte or two mean nothing.
func cutAtEnd(text, form string, cut bool) int {
	least := minCut
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

func isWord(text string, from, to int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:from])
	after, _ := utf8.DecodeRuneInString(text[to:])
	return !isWordRune(before) && !isWordRune(after)
}

// isWordRune takes the RuneError at either end of the text for a boundary.
func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// harmlessText returns s as UTF-8 that does nothing to a terminal or a log:
// control and formatting characters are written as Go escapes, except tabs
// and line ends.
func harmlessText(s string) string {
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
