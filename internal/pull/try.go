// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/layout"
	"github.com/regcred/regcred/internal/login"
)

// Try describes a failed attempt to pull.
type Try = login.FailedAttempt

// Error is returned by a pull if every try failed.
type Error struct {
	Image   string
	Tries   []Try
	Untried int // credentials not tried because of a local failure or cancellation
}

// Error returns all tries on one line.
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
		fmt.Fprintf(&b, "%s: %v", t.CredentialText(), t.Err)
	}
	if e.Untried > 0 {
		fmt.Fprintf(&b, "; %d more not tried", e.Untried)
	}
	return b.String()
}

// Unwrap returns the errors of the attempts.
func (e *Error) Unwrap() []error {
	var list []error
	for _, t := range e.Tries {
		list = append(list, t.Err)
	}
	return list
}

// tryEach tries credentials as the kubelet does. Without credentials, it calls try once with
// nil, for an anonymous pull. Otherwise it tries each credential until one works, and does
// not try anonymously. It adds the credentials to s, which redacts them in errors.
func tryEach(ctx context.Context, s *login.Secrets, image string, creds []regcred.Credential, refused func(regcred.Credential), try func(*regcred.Credential) error) (used *regcred.Credential, failed []Try, err error) {
	tries := []*regcred.Credential{nil} // anonymous
	if len(creds) > 0 {
		tries = tries[:0]
		for i := range creds {
			tries = append(tries, &creds[i])
		}
	}
	for _, cred := range tries {
		s.AddCredential(cred)
		err := try(cred)
		if err == nil {
			return cred, failed, nil
		}
		if done := ctx.Err(); done != nil && !errors.Is(err, done) {
			err = fmt.Errorf("%w: %w", done, err)
		}
		t := login.NewFailedAttempt(cred, err, s)
		failed = append(failed, t)
		if t.Status == http.StatusUnauthorized && cred != nil && refused != nil {
			refused(*cred)
		}
		// Another credential does not help if the disk is full or the pull was
		// canceled.
		if ctx.Err() != nil || isLocalError(err) {
			break
		}
	}
	return nil, nil, &Error{Image: image, Tries: failed, Untried: len(tries) - len(failed)}
}

// isLocalError reports whether an error was caused by this machine, so that other credentials
// do not help.
func isLocalError(err error) bool {
	_, ok := errors.AsType[*layout.LocalError](err)
	return ok
}
