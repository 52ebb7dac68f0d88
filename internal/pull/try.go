// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/regcred/regcred"
)

// Try is an attempt to pull that failed.
type Try struct {
	Credential *regcred.Credential // nil: anonymous
	Status     int                 // of HTTP; 0 if there was no answer, or a good one to a point
	Code       string              // the registry's error code, e.g. "UNAUTHORIZED"; "" if it gave none
	Err        error               // what happened, in words; without secrets
}

// who names the credential, e.g. `provider "ecr", user "AWS"`.
func (t Try) who() string {
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

// Error is a pull of which every try failed.
type Error struct {
	Image   string
	Tries   []Try
	Untried int // credentials that were not tried any more, because of a local failure or a cancellation
}

// Error names every try, in one line.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pulling %q: ", e.Image)
	if len(e.Tries) > 1 {
		fmt.Fprintf(&b, "%d credentials failed: ", len(e.Tries))
	}
	for i, t := range e.Tries {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s: %v", t.who(), t.Err)
	}
	if e.Untried > 0 {
		fmt.Fprintf(&b, "; %d more not tried", e.Untried)
	}
	return b.String()
}

// Unwrap returns the errors of the tries.
func (e *Error) Unwrap() []error {
	var list []error
	for _, t := range e.Tries {
		list = append(list, t.Err)
	}
	return list
}

// inTurn tries credentials as a kubelet does: without any, once anonymously;
// otherwise once with each until one works, and not anonymously after that. x
// learns the credentials that are tried.
func inTurn(ctx context.Context, x *exchange, image string, creds []regcred.Credential, refused func(regcred.Credential), try func(*regcred.Credential) error) (used *regcred.Credential, failed []Try, err error) {
	tries := []*regcred.Credential{nil} // anonymous
	if len(creds) > 0 {
		tries = tries[:0]
		for i := range creds {
			tries = append(tries, &creds[i])
		}
	}
	for _, cred := range tries {
		x.credential(cred)
		err := try(cred)
		if err == nil {
			return cred, failed, nil
		}
		if done := ctx.Err(); done != nil && !errors.Is(err, done) {
			err = fmt.Errorf("%w: %w", done, err)
		}
		t := newTry(cred, err, x)
		failed = append(failed, t)
		if t.Status == http.StatusUnauthorized && cred != nil && refused != nil {
			refused(*cred)
		}
		// Another credential mends neither a full disk nor a lost caller.
		if ctx.Err() != nil || isLocal(err) {
			break
		}
	}
	return nil, nil, &Error{Image: image, Tries: failed, Untried: len(tries) - len(failed)}
}

// tryError is an error whose text is safe to print. The cause is not for
// unwrapping, since its own text is not; [errors.Is] sees through.
type tryError struct {
	text string
	is   func(target error) bool // a closure: no printer of values looks into it
}

func (e *tryError) Error() string        { return e.text }
func (e *tryError) Is(target error) bool { return e.is(target) }

// said is an error of others in as many words as may be shown.
func said(err error) error {
	text := bound((&exchange{}).scrub(firstLine(err.Error())), maxText)
	return &tryError{text, func(target error) bool { return errors.Is(err, target) }}
}

// maxText bounds what others say in an error, in bytes.
const maxText = 2000

// newTry makes a Try of an error from wherever. What others said is scrubbed
// before it is cut, since half a password would remain.
func newTry(cred *regcred.Credential, err error, x *exchange) Try {
	t := Try{Credential: cred}
	text := err.Error()
	var terr *transport.Error
	if errors.As(err, &terr) {
		t.Status = terr.StatusCode
		var message string
		if len(terr.Errors) > 0 {
			t.Code = bound(x.scrub(quoted(string(terr.Errors[0].Code))), 64)
			message = bound(x.scrub(quoted(terr.Errors[0].Message)), 300)
		}
		// Its own text has the whole body of the answer.
		text = strings.ReplaceAll(text, terr.Error(), answer(t, message))
	}
	if e, ok := errors.AsType[*runtimeError](err); ok {
		t.Status, t.Code = e.status, e.kind
	}
	text = bound(x.scrub(firstLine(text)), maxText)
	// What is ours is added last: a password may be a word of it.
	if h := hint(t); h != "" {
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

func hint(t Try) string {
	switch {
	case t.Status == http.StatusUnauthorized && t.Credential == nil:
		return "no credentials were found, and it may not be pulled without"
	case t.Status == http.StatusUnauthorized:
		return "user name or password is wrong or has expired, or does not cover this repository"
	case t.Status == http.StatusForbidden:
		return "this credential may not pull this repository"
	case t.Status == http.StatusNotFound:
		return "not there, or hidden from this credential: check the name"
	case t.Status == http.StatusTooManyRequests:
		return "the registry limits requests: try again later"
	case t.Status >= 500:
		return "the registry is out of order: try again later"
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

func bound(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}
