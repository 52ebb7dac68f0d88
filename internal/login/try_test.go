// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
)

func TestDescribeCredential(t *testing.T) {
	secret := regcred.Credential{Username: `a"b`}
	secret.Origin.PullSecret = &regcred.ObjectRef{Namespace: "ci", Name: "s"}
	file := regcred.Credential{Username: "u"}
	file.Origin.File = "/x/config.json"
	for want, c := range map[string]*regcred.Credential{
		"anonymous":                       nil,
		`provider "ecr", user "AWS"`:      {Provider: "ecr", Username: "AWS"},
		`pull secret "ci/s", user "a\"b"`: &secret,
		`file "/x/config.json", user "u"`: &file,
		`credential, user "line\nnext"`:   {Username: "line\nnext"},
	} {
		if got := (FailedAttempt{Credential: c}).CredentialText(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestNewFailedAttempt(t *testing.T) {
	cred := newCredential("good", canary.PasswordSecret)
	s := &Secrets{}
	s.AddCredential(cred)
	answer := func(status int, code, message string) error {
		return &transport.Error{StatusCode: status, Errors: []transport.Diagnostic{{Code: transport.ErrorCode(code), Message: message}}}
	}
	for _, tt := range []struct {
		cred   *regcred.Credential
		err    error
		status int
		text   string
	}{
		{cred, answer(401, "UNAUTHORIZED", "no"), 401, `HTTP 401 UNAUTHORIZED "no" (the user name or password is wrong`},
		{nil, answer(401, "", ""), 401, "HTTP 401 (no credentials were found"},
		{cred, answer(403, "DENIED", "line\n"+canary.PasswordSecret), 403, `HTTP 403 DENIED "line\n[redacted]" (this credential is not`},
		{cred, answer(404, "X", ""), 404, "HTTP 404 X (the image does not exist"},
		{cred, answer(429, "X", ""), 429, "HTTP 429 X (the registry is rate limiting"},
		{cred, answer(500, "X", ""), 500, "HTTP 500 X (the registry returned a server error"},
		{cred, fmt.Errorf("login: %w", answer(418, canary.PasswordSecret, "")), 418, "login: HTTP 418 [redacted]"},
		{cred, fmt.Errorf("broke: %w: %s", io.ErrUnexpectedEOF, canary.PasswordSecret), 0, "broke: unexpected EOF: [redacted]"},
		{cred, errors.New("first\nsecond"), 0, "first"},
		{cred, runtimeError{}, 403, "a runtime said it"},
		{cred, errors.New(strings.Repeat("é", 2000)), 0, "é"},
	} {
		got := NewFailedAttempt(tt.cred, tt.err, s)
		text := got.Err.Error()
		canary.AssertAbsent(t, "the text", text+got.Code)
		if got.Status != tt.status || !strings.HasPrefix(text, tt.text) || strings.Contains(text, "\n") || len(text) > maxErrorText+200 {
			t.Errorf("%v: got %d, %.200s", tt.err, got.Status, text)
		}
		if !errors.Is(got.Err, tt.err) {
			t.Errorf("%v is not found any more", tt.err)
		}
		if terr := new(transport.Error); errors.As(got.Err, &terr) {
			t.Errorf("%v can be unwrapped", tt.err)
		}
	}
}

// runtimeError is an error that states the registry's response.
type runtimeError struct{}

func (runtimeError) Error() string                       { return "a runtime said it" }
func (runtimeError) Response() (status int, code string) { return 403, "DENIED" }

func TestSafeErrorHidesUserinfo(t *testing.T) {
	err := SafeError(fmt.Errorf("https://user:"+canary.PasswordSecret+"@registry.example: %w\nmore", io.EOF))
	if !errors.Is(err, io.EOF) || strings.Contains(err.Error(), "more") {
		t.Errorf("got %v", err)
	}
	canary.AssertAbsent(t, "the text", err.Error())
}

func TestTokenSecrets(t *testing.T) {
	s := &Secrets{}
	for _, in := range []string{
		`{"token":"` + canary.TokenSecret + `"}`,
		`{"access_token":"access-secret-1","REFRESH_token":"refresh-secret-1","token":1} more`,
		`not JSON`,
	} {
		s.addTokens([]byte(in))
	}
	if got := s.Redact(canary.TokenSecret + " access-secret-1 refresh-secret-1"); got != "[redacted] [redacted] [redacted]" {
		t.Errorf("got %q", got)
	}
	for n := range 100 {
		s.addFromServer(fmt.Sprint(n, strings.Repeat("x", maxSecretsSize/50)))
	}
	if s.size > maxSecretsSize {
		t.Errorf("%d bytes are kept", s.size)
	}
}
