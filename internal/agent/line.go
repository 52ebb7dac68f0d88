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

// The bounds of a status line, in bytes. A container runtime writes a line of up to
// 16 KiB (containerd) or 8 KiB (CRI-O) in one piece, and who asks a kubelet for the
// last line gets the last piece.
const (
	maxLine   = 8 << 10
	maxReason = 1 << 10
	maxName   = 320 // NAMESPACE/RELEASE
	maxDrift  = 10
	maxDiffer = 256
)

// line is a status as it is printed: one line of JSON that ends with a newline.
// Long texts are shortened.
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
		default: // not with these bounds
			s.Reason = ""
		}
	}
}

// bound shortens what is long, and makes one line of each text.
func (s *Status) bound() {
	for _, text := range []*string{&s.Node, &s.Owner, &s.Revision, &s.Kind, &s.Kubelet} {
		*text = short(*text, maxName)
	}
	s.Reason = short(s.Reason, maxReason)
	if s.LastError != nil {
		s.LastError = &Error{s.LastError.Time, short(s.LastError.Message, maxReason)}
	}
	list := few(s.Drift)
	s.Drift = nil
	for _, text := range list {
		s.Drift = append(s.Drift, short(text, maxDiffer))
	}
}

// few are the first of a list, and how many others there are.
func few(list []string) []string {
	if len(list) <= maxDrift {
		return list
	}
	return append(append([]string{}, list[:maxDrift-1]...), fmt.Sprintf("and %d more", len(list)-maxDrift+1))
}

// compact is JSON without indentation.
func compact(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // of no type that is printed here
		panic(err)
	}
	return b.Bytes()
}

// short makes one printable line of a text, of at most max bytes.
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
