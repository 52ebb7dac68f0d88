// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/internal/remote"
)

// readResponse extracts the credential from the last step's response, and stores the responses of
// other steps in v.answers. Errors do not quote the response.
func (p *Provider) readResponse(s *compiledStep, answer *remote.Response, v placeholderValues) (cred credential, err error) {
	document, err := decodeJSON(answer)
	if err != nil {
		return cred, err
	}
	if cred.expires, err = s.credentialExpiry(document, p.opts.Now()); err != nil {
		return cred, err
	}
	if s.secret == nil {
		v.responses[s.name] = document
	} else if err := s.extractCredential(document, &cred); err != nil {
		return cred, err
	}
	if !cred.expires.IsZero() && !p.opts.Now().Before(cred.expires) {
		return cred, fmt.Errorf("the credential in the response expired at %s; check the node's clock, which shows %s",
			cred.expires.UTC().Format(time.RFC3339), p.opts.Now().UTC().Format(time.RFC3339))
	}
	return cred, nil
}

// extractCredential extracts the credential from a document.
func (c *compiledStep) extractCredential(document any, cred *credential) (err error) {
	if cred.secret, err = c.secret.findString(document); err != nil {
		return err
	}
	if c.username != nil {
		if cred.username, err = c.username.findString(document); err != nil {
			return err
		}
		if err := checkUsername(cred.username); err != nil {
			return fmt.Errorf("%q in the response: %w", c.username.String(), err)
		}
	}
	if claims, err := jwt.Parse(cred.secret); err == nil {
		cred.expires = earlierTime(cred.expires, claims.Expires)
	}
	return nil
}

func decodeJSON(answer *remote.Response) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(answer.Body))
	decoder.UseNumber()
	var document any
	err := decoder.Decode(&document)
	_, trailing := decoder.Token()
	switch {
	case len(bytes.TrimSpace(answer.Body)) == 0:
		return nil, errors.New("the response is empty")
	case err != nil || trailing != io.EOF || !utf8.Valid(answer.Body):
		return nil, fmt.Errorf("the response is not JSON%s", contentTypeHint(answer.Header))
	}
	return document, nil
}

// contentTypeHint returns the content type of a response that is text instead of JSON, for error
// messages.
func contentTypeHint(h http.Header) string {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || len(media) > 40 || !strings.HasPrefix(media, "text/") {
		return ""
	}
	return ", but " + media
}

// credentialExpiry returns the credential's expiry. A response without an expiry is valid (RFC
// 8693, section 2.2.1), but a value that is not a time is an error.
func (c *compiledStep) credentialExpiry(document any, now time.Time) (time.Time, error) {
	var expires time.Time
	for _, field := range []struct {
		path jsonPath
		read func(any) (time.Time, error)
	}{
		{c.expiresIn, func(value any) (time.Time, error) { return parseLifetime(value, now) }},
		{c.expiresAt, parseTime},
	} {
		value, ok := field.path.findValue(document)
		if !ok || field.path == nil {
			continue
		}
		t, err := field.read(value)
		if err != nil {
			return t, fmt.Errorf("%q in the response %w", field.path.String(), err)
		}
		expires = earlierTime(expires, t)
	}
	return expires, nil
}

// earlierTime returns the earlier of two times. It ignores zero times.
func earlierTime(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
