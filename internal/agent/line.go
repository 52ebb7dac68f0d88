// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/regcred/regcred/internal/shown"
)

// The limits of a status line, in bytes. Container runtimes split lines above 16 KiB
// (containerd) or 8 KiB (CRI-O), and a kubelet returns only the last part.
const (
	maxLine   = 8 << 10
	maxReason = 1 << 10
	maxName   = 320 // NAMESPACE/RELEASE
	maxDrift  = 10
	maxDiffer = 256
)

// line returns the status as one line of JSON. Long texts are shortened.
func (s Status) line() []byte {
	s.bound()
	for {
		data := compact(s)
		switch {
		case len(data) <= maxLine:
			return data
		case len(s.Drift) > 0:
			s.Drift = s.Drift[:len(s.Drift)-1]
		case s.LastError != nil && s.LastError.Message != "":
			s.LastError = &Error{Time: s.LastError.Time}
		default:
			s.Reason = ""
		}
	}
}

// bound shortens texts, and makes each one line.
func (s *Status) bound() {
	for _, text := range []*string{&s.Node, &s.Owner, &s.Revision, &s.Kind, &s.Kubelet} {
		*text = short(*text, maxName)
	}
	s.Reason = short(s.Reason, maxReason)
	if s.LastError != nil {
		s.LastError = &Error{s.LastError.Time, short(s.LastError.Message, maxReason)}
	}
	list := firstFew(s.Drift)
	s.Drift = nil
	for _, text := range list {
		s.Drift = append(s.Drift, short(text, maxDiffer))
	}
}

// firstFew returns the first texts of a list, and how many more there are.
func firstFew(list []string) []string {
	if len(list) <= maxDrift {
		return list
	}
	return append(append([]string{}, list[:maxDrift-1]...), fmt.Sprintf("and %d more", len(list)-maxDrift+1))
}

// compact returns JSON without indentation.
func compact(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // cannot happen for the types of this package
		panic(err)
	}
	return b.Bytes()
}

// short returns a text as one printable line of at most max bytes.
func short(text string, max int) string {
	if text = shown.Line(text); len(text) <= max {
		return text
	}
	text = text[:max-len("…")]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return strings.TrimRight(text, " ") + "…"
}
