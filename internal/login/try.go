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

// FailedAttempt is a failed attempt with one credential.
type FailedAttempt struct {
	Credential *regcred.Credential // nil means anonymous
	Status     int                 // HTTP status; 0 if there was no response, or a successful one was cut off
	Code       string              // the registry's error code, e.g. "UNAUTHORIZED"; "" if it sent none
	Err        error               // the failure, without secrets
}

// CredentialText describes the credential, e.g. `provider "ecr", user "AWS"`.
func (t FailedAttempt) CredentialText() string {
	c := t.Credential
	if c == nil {
		return "anonymous"
	}
	var from string
	switch {
	case c.Provider != "":
		from = fmt.Sprintf("provider %q", c.Provider)
	case c.Origin.PullSecret != nil:
		from = fmt.Sprintf("pull secret %q", strings.TrimPrefix(c.Origin.PullSecret.Namespace+"/"+c.Origin.PullSecret.Name, "/"))
	case c.Origin.File != "":
		from = fmt.Sprintf("file %q", c.Origin.File)
	default:
		from = "credential"
	}
	return fmt.Sprintf("%s, user %q", from, c.Username)
}

// safeError is an error whose text is safe to print. It supports [errors.Is], but does
// not unwrap to its cause, because the cause's text is not safe.
type safeError struct {
	text    string
	matches func(target error) bool // a closure hides the cause from reflection
}

func (e *safeError) Error() string        { return e.text }
func (e *safeError) Is(target error) bool { return e.matches(target) }

// SafeError returns an error with the first line of err's text, redacted and truncated.
func SafeError(err error) error {
	text := Truncate(new(Secrets).Redact(firstLine(err.Error())), maxErrorText)
	return &safeError{text, func(target error) bool { return errors.Is(err, target) }}
}

// maxErrorText limits the text from other programs in an error, in bytes.
const maxErrorText = 2000

// ResponseError is an error that contains the registry's response. An example is an
// error from a container runtime, which parses the response from text.
type ResponseError interface {
	error
	Response() (status int, code string)
}

// NewFailedAttempt returns the FailedAttempt for a credential and an error. It redacts the error's
// text before truncating it, because a truncated password would not be recognized.
func NewFailedAttempt(cred *regcred.Credential, err error, s *Secrets) FailedAttempt {
	t := FailedAttempt{Credential: cred}
	text := err.Error()
	var terr *transport.Error
	if errors.As(err, &terr) {
		t.Status = terr.StatusCode
		var message string
		if len(terr.Errors) > 0 {
			t.Code = Truncate(s.Redact(escapeForQuotes(string(terr.Errors[0].Code))), 64)
			message = Truncate(s.Redact(escapeForQuotes(terr.Errors[0].Message)), 300)
		}
		// terr's text includes the whole body of the response.
		text = strings.ReplaceAll(text, terr.Error(), errorResponseText(t, message))
	}
	if e, ok := errors.AsType[ResponseError](err); ok {
		t.Status, t.Code = e.Response()
	}
	text = Truncate(s.Redact(firstLine(text)), maxErrorText)
	// Add regcred's own text after redaction, because a password may be a word in it.
	if h := t.Hint(); h != "" {
		text += " (" + h + ")"
	}
	t.Err = &safeError{text, func(target error) bool { return errors.Is(err, target) }}
	return t
}

// errorResponseText describes a registry's error response.
func errorResponseText(t FailedAttempt, message string) string {
	text := fmt.Sprintf("HTTP %d", t.Status)
	if t.Code != "" {
		text += " " + t.Code
	}
	if message != "" {
		text += ` "` + message + `"`
	}
	return text
}

// Hint explains the HTTP status. It returns "" if the status needs no explanation. The text of Err
// ends with the hint.
func (t FailedAttempt) Hint() string {
	switch {
	case t.Status == http.StatusUnauthorized && t.Credential == nil:
		return "no credentials were found, and anonymous pulls are not allowed"
	case t.Status == http.StatusUnauthorized && t.Credential.Username == "":
		return "the credential has no user name, so the pull is anonymous, and anonymous pulls are not allowed"
	case t.Status == http.StatusUnauthorized:
		return "the user name or password is wrong, has expired, or does not grant access to this repository"
	case t.Status == http.StatusForbidden:
		return "this credential is not allowed to pull from this repository"
	case t.Status == http.StatusNotFound && t.Code == string(transport.BlobUnknownErrorCode):
		return "the registry has the image but not this part of it: push the image again"
	case t.Status == http.StatusNotFound:
		return "the image does not exist or is not visible to this credential: check the name"
	case t.Status == http.StatusTooManyRequests:
		return "the registry is rate limiting requests: try again later"
	case t.Status >= 500:
		return "the registry returned a server error: try again later"
	}
	return ""
}

// escapeForQuotes returns s quoted as by %q, without the enclosing quotes.
func escapeForQuotes(s string) string {
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

// firstLine removes further lines, in which some programs repeat a server's response.
func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// Truncate shortens s to at most n bytes, at a character boundary.
func Truncate(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}
