// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/regcred/regcred"
)

// Try is a failed attempt with one credential.
type Try struct {
	Credential *regcred.Credential // nil means anonymous
	Status     int                 // of HTTP; 0 if there was no response, or a successful one that broke off
	Code       string              // the registry's error code, e.g. "UNAUTHORIZED"; "" if it sent none
	Err        error               // the failure, without secrets
}

// Who names the credential, e.g. `provider "ecr", user "AWS"`.
func (t Try) Who() string {
	c := t.Credential
	if c == nil {
		return "anonymous"
	}
	var from string
	switch {
	case c.Provider != "":
		from = fmt.Sprintf("provider %q", c.Provider)
	case c.Origin.PullSecret != nil:
		from = fmt.Sprintf("pull secret %q", c.Origin.PullSecret.Namespace+"/"+c.Origin.PullSecret.Name)
	case c.Origin.File != "":
		from = fmt.Sprintf("file %q", c.Origin.File)
	default:
		from = "credential"
	}
	return fmt.Sprintf("%s, user %q", from, c.Username)
}

// tryError is an error whose text is safe to print. It does not unwrap to its
// cause, whose text is not safe, but supports [errors.Is].
type tryError struct {
	text string
	is   func(target error) bool // a closure hides the cause from reflection
}

func (e *tryError) Error() string        { return e.text }
func (e *tryError) Is(target error) bool { return e.is(target) }

// Said returns an error with the text of err that may be shown.
func Said(err error) error {
	text := Bound(new(Secrets).Scrub(firstLine(err.Error())), maxText)
	return &tryError{text, func(target error) bool { return errors.Is(err, target) }}
}

// maxText bounds the text of other programs in an error, in bytes.
const maxText = 2000

// Answered is an error that knows the registry's response, such as a container
// runtime's, which parses it from a text.
type Answered interface {
	error
	Answer() (status int, code string)
}

// NewTry returns a Try for any error. It redacts the text before it shortens
// it, since half a password would not be recognized.
func NewTry(cred *regcred.Credential, err error, s *Secrets) Try {
	t := Try{Credential: cred}
	text := err.Error()
	var terr *transport.Error
	if errors.As(err, &terr) {
		t.Status = terr.StatusCode
		var message string
		if len(terr.Errors) > 0 {
			t.Code = Bound(s.Scrub(quoted(string(terr.Errors[0].Code))), 64)
			message = Bound(s.Scrub(quoted(terr.Errors[0].Message)), 300)
		}
		// terr's text contains the whole body of the response.
		text = strings.ReplaceAll(text, terr.Error(), response(t, message))
	}
	if e, ok := errors.AsType[Answered](err); ok {
		t.Status, t.Code = e.Answer()
	}
	text = Bound(s.Scrub(firstLine(text)), maxText)
	// Our text is added after redaction, since a password may be a word in it.
	if h := t.Hint(); h != "" {
		text += " (" + h + ")"
	}
	t.Err = &tryError{text, func(target error) bool { return errors.Is(err, target) }}
	return t
}

// response describes a registry's refusal.
func response(t Try, message string) string {
	text := fmt.Sprintf("HTTP %d", t.Status)
	if t.Code != "" {
		text += " " + t.Code
	}
	if message != "" {
		text += ` "` + message + `"`
	}
	return text
}

// Hint explains a status, in the words with which Err ends. It is "" if the
// status needs no explanation.
func (t Try) Hint() string {
	switch {
	case t.Status == http.StatusUnauthorized && t.Credential == nil:
		return "no credentials were found, and anonymous pulls are not allowed"
	case t.Status == http.StatusUnauthorized:
		return "the user name or password is wrong, has expired, or does not grant access to this repository"
	case t.Status == http.StatusForbidden:
		return "this credential is not allowed to pull from this repository"
	case t.Status == http.StatusNotFound:
		return "the image does not exist or is not visible to this credential: check the name"
	case t.Status == http.StatusTooManyRequests:
		return "the registry is rate limiting requests: try again later"
	case t.Status >= 500:
		return "the registry returned a server error: try again later"
	}
	return ""
}

// quoted returns what %q puts between its quotes.
func quoted(s string) string {
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

// firstLine removes the response of a token server, which go-containerregistry
// appends to some messages.
func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// Bound shortens a text to at most n bytes, at a character boundary.
func Bound(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}
