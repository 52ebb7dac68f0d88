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

// Try is an attempt with one credential that failed.
type Try struct {
	Credential *regcred.Credential // nil: anonymous
	Status     int                 // of HTTP; 0 if there was no answer, or a good one to a point
	Code       string              // the registry's error code, e.g. "UNAUTHORIZED"; "" if it gave none
	Err        error               // what happened, in words; without secrets
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

// tryError is an error whose text is safe to print. The cause is not for
// unwrapping, since its own text is not; [errors.Is] sees through.
type tryError struct {
	text string
	is   func(target error) bool // a closure: no printer of values looks into it
}

func (e *tryError) Error() string        { return e.text }
func (e *tryError) Is(target error) bool { return e.is(target) }

// Said is an error of others in as many words as may be shown.
func Said(err error) error {
	text := Bound(new(Secrets).Scrub(firstLine(err.Error())), maxText)
	return &tryError{text, func(target error) bool { return errors.Is(err, target) }}
}

// maxText bounds what others say in an error, in bytes.
const maxText = 2000

// Answered is an error that tells by itself what the registry answered: a
// container runtime's, which has it out of a text.
type Answered interface {
	error
	Answer() (status int, code string)
}

// NewTry makes a Try of an error from wherever. What others said is scrubbed
// before it is cut, since half a password would remain.
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
		// Its own text has the whole body of the answer.
		text = strings.ReplaceAll(text, terr.Error(), answer(t, message))
	}
	if e, ok := errors.AsType[Answered](err); ok {
		t.Status, t.Code = e.Answer()
	}
	text = Bound(s.Scrub(firstLine(text)), maxText)
	// What is ours is added last: a password may be a word of it.
	if h := t.Hint(); h != "" {
		text += " (" + h + ")"
	}
	t.Err = &tryError{text, func(target error) bool { return errors.Is(err, target) }}
	return t
}

// answer puts a registry's refusal into words.
func answer(t Try, message string) string {
	text := fmt.Sprintf("HTTP %d", t.Status)
	if t.Code != "" {
		text += " " + t.Code
	}
	if message != "" {
		text += ` "` + message + `"`
	}
	return text
}

// Hint is what the status means, in the words with which Err ends; "" if it says it
// by itself.
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

// quoted is what stands between the quotes of %q.
func quoted(s string) string {
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

// firstLine drops what go-containerregistry appends to some messages: the
// whole answer of a token server.
func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// Bound cuts a text after n bytes, between two characters.
func Bound(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}
